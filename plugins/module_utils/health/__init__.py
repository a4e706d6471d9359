"""Health of nodes: judgement, the agent, and the controller's limiter."""
