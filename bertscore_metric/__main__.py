"""`python -m bertscore_metric`."""

from bertscore_metric.cli import main

if __name__ == "__main__":  # not where pydoc or a spawned process imports it
    main()
