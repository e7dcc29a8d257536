"""The jobs that a coordinator serves: their data, their processes, and the durable steps that advance them.

- The data: ``running_job`` with its ``parts``; ``loading`` makes one, ``snapshots`` and ``status_view`` show it.
- The steps: ``registry``, with the ``states`` of a deployment and the progress of a drain (``draining``).
- The processes: ``membership`` hears them, ``reports`` applies what they say to lanes, ``offers`` says what they should
  run; ``seats``, ``racks``, ``standbys`` and ``standby_plan``, ``long_polls``, ``long_batches``, ``fencing``.
- The next generation or deployment: ``transitions``, ``next_deployment``, ``plans``; how long output pauses for it:
  ``pause_estimate``, ``pauses``.
- ``reader_positions`` keeps the inputs' retention from what a job has still to read.
"""
