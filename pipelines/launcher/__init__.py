"""What :mod:`beam_joins.pipelines.spark` starts a job on Spark with: Java, jars, the job server, worker processes."""
