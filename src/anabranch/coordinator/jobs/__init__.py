"""The jobs that a coordinator serves: their data, their processes, and the durable steps that advance them.

- A job's data: ``running_job``, which consists of ``parts``. ``loading`` makes it from the store, ``snapshots`` reduces
  it to what determines the job's next state, and ``status_view`` shows it to users.
- Steps: ``registry`` takes the steps that ``states`` and ``draining`` determine.
- Processes: ``membership`` gives them seats and handles their heartbeats, with ``seats``, ``racks``, ``reports``,
  ``offers``, ``standbys``, ``standby_plan``, ``long_polls`` and ``long_batches``. ``fencing`` fences the outputs of
  lanes whose process has lost its seat.
- Changes: ``transitions`` determines the next generation. ``next_deployment`` and ``plans`` determine the next
  deployment. ``pauses`` predicts and measures how long a change pauses output, with ``pause_estimate``,
  ``batch_loss``, ``pause_experience``, ``change_kind`` and ``measured_change``.
- Events about jobs: ``job_events``.
- The retention of the streams that jobs read: ``reader_positions``.
"""
