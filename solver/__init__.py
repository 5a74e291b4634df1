"""Instance to plan: dynamic programming, rules, exact models and bounds."""
