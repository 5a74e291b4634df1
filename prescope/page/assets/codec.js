// Columns of integers as the file holds them: base64 of a zlib stream of zigzag varints.

async function unpackColumns(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  const data = new Uint8Array(await new Response(stream).arrayBuffer());
  let at = 0;
  const next = () => {
    let value = 0;
    let factor = 1;
    let byte;
    do {
      byte = data[at];
      at += 1;
      value += (byte & 127) * factor;  // not by shifts: values may pass 32 bits
      factor *= 128;
    } while (byte > 127);
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  const columns = new Array(next());
  for (let index = 0; index < columns.length; index += 1) {
    const column = new Array(next());
    for (let row = 0; row < column.length; row += 1) column[row] = next();
    columns[index] = column;
  }
  return columns;
}

// From differences to values.
function summed(column) {
  let total = 0;
  return column.map((value) => { total += value; return total; });
}
