"""Every backend by name."""

import pytest

from prescope.runtime import backends


@pytest.fixture(params=backends())
def name(request):
    return request.param
