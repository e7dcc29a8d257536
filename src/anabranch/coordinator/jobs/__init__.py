"""The jobs that a coordinator serves: their data, their processes, and the durable steps that advance them.

- Data: ``running_job``, which consists of ``parts``; ``loading``, ``snapshots`` and ``status_view``.
- Steps: ``registry`` takes the steps that ``states`` and ``draining`` determine.
- Processes: ``membership``, ``reports`` and ``offers``; also ``seats``, ``racks``, ``standbys``, ``standby_plan``,
  ``long_polls``, ``long_batches`` and ``fencing``.
- The next generation or deployment: ``transitions``, ``next_deployment`` and ``plans``. The pause of a change:
  ``pause_estimate``, ``batch_loss``, ``pause_experience``, ``change_kind``, ``measured_change`` and ``pauses``.
- Events: ``job_events``. The retention of inputs: ``reader_positions``.
"""
