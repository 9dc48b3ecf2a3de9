"""The report: one page that shows a chemist what was measured, predicted, and not known."""
