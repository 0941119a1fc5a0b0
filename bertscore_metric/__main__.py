"""`python -m bertscore_metric`."""

from bertscore_metric.cli import main

main()
