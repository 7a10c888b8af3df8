"""What a run would send, cost and take: told before anything is sent."""

from batchwright._plan.planner import Planner, Workload

__all__ = ["Planner", "Workload"]
