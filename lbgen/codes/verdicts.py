"""LB3xx: verdicts of engines on what a topology asks for."""

TEXT = """
LB301 refused by an engine
  cause: The engine cannot do what the topology asks for. The finding says why; `lbgen explain` lists all verdicts.
  example: $ lbgen render topology.yaml -e nftables    # a topology with L7 routes
  remedy: Drop the feature, or use an engine that has it.
LB302 approximate on an engine and not accepted
  cause: The engine does something close to the contract; the finding says what differs.
  example: $ lbgen render topology.yaml -e traefik    # without --accept
  remedy: Accept the difference (`accept: { ENGINE: [FEATURE] }` or `--accept FEATURE`), or use another engine.
LB303 an accepted feature that the topology does not use
  cause: `accept` names a feature that no field of the topology asks for.
  example: accept: { nginx: [route.retries] }
  remedy: Drop the entry.
LB304 a value that an engine cannot hold
  cause: The engine's configuration language has no form for the value, such as a character that cannot be quoted.
  example: $ lbgen render topology.yaml -e nginx    # a value that nginx cannot quote
  remedy: Change or drop the value, or use another engine.
LB305 unknown engine or engine version
  cause: No installed package provides the engine, its package is broken, or lbgen does not know the version.
  example: $ lbgen render topology.yaml -e apache
  remedy: Use one of the engines or versions that the finding lists.
LB306 a tiered topology where one plan is needed
  cause: The call works on a single plan, and each tier has its own.
  example: $ python -c 'import lbgen; lbgen.plan(lbgen.load("tiers.yaml"))'
  remedy: Take the plans from `lbgen.tiers(topology)`.
LB307 a version of an engine that lbgen does not know
  cause: It is newer than the supported ones, or between two of them, and is served the files for the newest older one.
  example: $ lbgen check topology.yaml --engine-version nginx=1.33
  remedy: See what it does otherwise with `lbgen fingerprint`, and verify the topology on it.
LB308 an engine that is left out
  cause: `check` was not asked for the engine by name, and the engine refuses the topology or is not installed.
  example: $ lbgen check topology.yaml --json    # a topology that nftables refuses
  remedy: Do what the finding says, choose engines with -e, or hide the advice with --ignore LB308.
"""
