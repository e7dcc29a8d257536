"""The jobs that a coordinator serves: their data, their processes, and the durable steps that advance them.

- Data: ``running_job`` represents a job, and consists of ``parts``. ``loading`` makes a running job from the store;
  ``snapshots`` and ``status_view`` show the job at one moment.
- Steps: ``registry`` takes the steps that ``states`` and ``draining`` determine.
- Processes: ``membership`` handles registrations and heartbeats, ``reports`` applies reports to lanes, and ``offers``
  determines what processes should run. See also ``seats``, ``racks``, ``standbys``, ``standby_plan``, ``long_polls``,
  ``long_batches`` and ``fencing``.
- The next generation or deployment: ``transitions``, ``next_deployment`` and ``plans``. ``pause_estimate`` and
  ``pauses`` predict and measure how long output pauses for a change.
- ``job_events`` makes the events about changes and lanes.
- ``reader_positions`` makes the retention of a job's inputs keep the records that the job still has to read.
"""
