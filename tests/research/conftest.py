from tests.stages.conftest import project

__all__ = ["project"]
