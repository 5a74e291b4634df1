"""What is optimised: costs, demand, instance, plan and the exact evaluator."""
