"""The jobs that a coordinator serves: their data, their processes, and the durable steps that advance them.

- A job's data: ``running_job``, which consists of ``parts``. ``loading`` makes it from the store, ``snapshots`` reduces
it to what determines the job's next state, and ``status_view`` shows it to users. - Steps: ``registry`` takes the steps
that ``states`` and ``draining`` determine. - Processes: ``membership`` gives them seats and handles their heartbeats.
For this, it uses ``seats``, ``racks``, ``reports``, ``offers``, ``standbys``, ``standby_plan``, ``long_polls``,
``long_batches`` and ``fencing``. - Changes: ``transitions`` determines the next generation, ``next_deployment`` and
``plans`` the next deployment. ``pauses`` predicts and measures how long a change pauses output, with
``pause_estimate``, ``batch_loss``, ``pause_experience``, ``change_kind`` and ``measured_change``. - Events:
``job_events``. The retention of inputs: ``reader_positions``.
"""
