"""LB3xx: verdicts of engines on what a topology asks for. LB4xx: engines and runtimes."""

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
LB310 a field that the target of an export keeps in another way
  cause: What runs the exported folder starts several replicas, or stands between clients and the engine. The finding
    says what holds instead.
  example: $ lbgen export topology.yaml --to kubernetes -e haproxy -o out    # with a rate limit
  remedy: Divide limits by the number of replicas, or change the field as the finding says.
LB311 a topology that the target of an export cannot hold
  cause: The target has no place for a file or a field, or none where the engine can run.
  example: $ lbgen export topology.yaml --to swarm -e nginx -o out    # with active checks, which need the agent
  remedy: Do what the finding says, or choose another target or engine.
LB401 the engine's own checker refuses the configuration
  cause: The engine's checker rejects the rendered files. The finding has its output.
  example: $ lbgen check topology.yaml -e nginx    # a verbatim text with an error
  remedy: Correct the verbatim text in `engines`; without any, report a fault of lbgen.
LB402 an executable is missing
  cause: The engine (or its checker, `ip`, `unshare`) is not installed, is too old, or the variable that names it is
    wrong.
  example: $ LBGEN_NGINX=/no/such/nginx lbgen up topology.yaml -e nginx
  remedy: Install what the finding names, or use `--runtime docker`.
LB403 an engine does not start, or ends
  cause: A process or container ends, does not answer in time, or a command that sets it up fails. The finding has its
    last lines.
  example: $ lbgen up topology.yaml -e envoy    # with too little memory
  remedy: Read the output in the finding or in `lbgen logs`.
LB404 a port is taken
  cause: Another process or container listens on a port that the stack needs, or no free port is left.
  example: $ lbgen up topology.yaml    # while something listens on port 8080
  remedy: Stop the other process, or choose another port.
LB405 a route does not answer as it should
  cause: The probe of a route after a start or reload got another answer than the plan predicts, or none.
  example: $ lbgen up topology.yaml    # with an endpoint that refuses connections
  remedy: Check the endpoints of the route; `lbgen route` shows what it should answer.
LB406 no such stack, or several
  cause: The name fits no running stack, no name is given and several run, or a stack of that name runs elsewhere.
  example: $ lbgen logs no-such-stack
  remedy: Name one of the stacks that `lbgen ps` lists.
LB407 root is needed
  cause: Network namespaces, kernel rules and ports of containers need root.
  example: $ lbgen up topology.yaml -e nftables --runtime local    # not as root
  remedy: Run as root, or leave out what needs it.
LB408 the state directory cannot be used
  cause: The folder for the state of stacks is not writable, belongs to another user, or holds a damaged file.
  example: $ LBGEN_STATE_DIR=/proc lbgen ps
  remedy: Set `LBGEN_STATE_DIR` to a folder of your own, or remove the damaged file.
LB409 unknown runtime
  cause: The runtime is none of `local`, `docker`, `swarm` and `kubernetes`, or it cannot run a plan.
  example: $ python -c 'import lbgen; lbgen.up("topology.yaml", runtime="podman")'
  remedy: Use one of the runtimes that the finding lists.
LB410 the agent's specification cannot be used
  cause: `agent.json` in the agent's folder is missing, malformed or of another version, or its engine needs no agent.
  example: $ lbgen agent empty-folder
  remedy: Render the topology again with the same lbgen.
LB411 no rendered files
  cause: The folder that `--rendered` names holds no files of the engine.
  example: $ lbgen verify topology.yaml --rendered empty-folder
  remedy: Write them with `lbgen render -o FOLDER`.
LB412 a change that needs a restart
  cause: The running stack cannot take the change over by reloading: other ports, versions, or files that an engine
    reads only at its start. Nothing was changed.
  example: $ lbgen reload topology.yaml    # with another port
  remedy: Run `lbgen up`, or `lbgen down` and `lbgen up`.
LB413 a change that was rolled back
  cause: The stack did not serve correctly with the change; the files and engines of before serve again.
  example: $ lbgen reload topology.yaml    # a route whose endpoints are down
  remedy: Solve what the other findings name, then run the same command again.
LB414 two engines that behave differently
  cause: The verification before a swap found a difference. Nothing was changed.
  example: $ lbgen up topology.yaml --swap haproxy
  remedy: Look at all differences with `lbgen verify -e OLD -e NEW`.
LB415 a swap that is not possible
  cause: The stack is local, tiered, or on a swarm or cluster, runs several engines and none is named, or already runs
    the new engine.
  example: $ lbgen up topology.yaml --swap nginx    # while nginx serves
  remedy: Name one engine with `-e`, or change the stack as the finding says.
LB416 no fingerprint
  cause: The file is not one that `lbgen fingerprint -o` wrote, or lbgen has none stored of that version.
  example: $ lbgen fingerprint haproxy --compare ./topology.json
  remedy: Write one with `lbgen fingerprint ENGINE -o FILE` where that version runs.
LB420 no docker daemon
  cause: The docker SDK is not installed, or no daemon answers at the address in use, or it is too old, remote, or not
    permitted.
  example: $ DOCKER_HOST=unix:///no.sock lbgen up topology.yaml --runtime docker
  remedy: Start the daemon, join the group `docker`, correct `DOCKER_HOST`, or use `--runtime local`.
LB421 docker refuses an operation
  cause: The daemon returned an error or did not answer in time. The finding has its text.
  example: $ lbgen up topology.yaml --runtime docker    # with no disk space left
  remedy: Solve what the daemon reports (`journalctl -u docker`).
LB422 no image
  cause: The engine's image cannot be pulled or built, or is made for another processor.
  example: $ lbgen up topology.yaml --runtime docker    # without a network and without images
  remedy: Build images with `lbgen images`, or name one that exists.
LB423 a docker network that containers cannot join
  cause: `docker.networks` names a network that does not exist or has no container names. As advice: an endpoint has the
    name of a container on a network that the stack does not join.
  example: $ lbgen up topology.yaml --runtime docker    # docker: { networks: [no-such-network] }
  remedy: Create the network with `docker network create`, or correct its name.
LB424 a file of the topology cannot be read while it is used
  cause: A certificate or key was removed or became unreadable after the topology was checked.
  example: $ lbgen render topology.yaml -e haproxy -o out    # without permission to read the key
  remedy: Make the file readable.
LB425 the operating system refuses a resource
  cause: A system call failed: no memory, no file descriptors, no disk space, no permission.
  example: $ (ulimit -n 32; lbgen up topology.yaml)
  remedy: Raise the limit that the finding names.
LB426 lbgen failed while it changed a running stack
  cause: lbgen, or the supervisor of a local stack, ended before the change was complete.
  example: $ lbgen reload topology.yaml    # while the supervisor is killed
  remedy: Run the command again; report the fault with the output of `lbgen logs`.
LB427 a certificate and a key that do not belong together
  cause: The key is of another certificate, is encrypted, or the file has no PEM text.
  example: listeners: { web: { port: 8443, tls: { certificates: [{ cert: pair.crt, key: pair.crt }] } } }
  remedy: Name the key that belongs to the first certificate of the file, without a passphrase.
LB428 a certificate that is not valid today, or not for long
  cause: A certificate of the chain has expired, is not valid yet, or expires within 30 days.
  example: $ lbgen check topology.yaml    # with an expired certificate
  remedy: Renew the certificate.
LB429 a change that serves, with a step left to do
  cause: The change serves and cannot be rolled back, but an agent could not be started or ended.
  example: $ lbgen reload topology.yaml    # while docker refuses to start the agent
  remedy: Run `lbgen up`, which does the rest.
LB430 a load generator that is missing or failed
  cause: wrk is not in PATH, or a generator ended with an error or without an answered request.
  example: $ PATH=/usr/bin lbgen bench topology.yaml    # where wrk is not installed
  remedy: Install it (`apt-get install wrk`, `brew install wrk`); where it failed, the finding has its last output.
LB431 a benchmark that would not compare like with like
  cause: The topology has no request that `lbgen bench` can send, or an engine does not pass the short verification
    before the load.
  example: $ lbgen bench topology.yaml    # whose only listener expects a PROXY header
  remedy: Choose another request with `--url`, or look at the differences with `lbgen verify`.
LB432 the kernel lacks what an engine works with
  cause: The engine forwards in the kernel by a part that this host's kernel does not have, or has not loaded.
  example: $ lbgen up topology.yaml -e keepalived    # on a kernel without IPVS
  remedy: Load it as the finding says, use another host, or leave the engine out; `render` and `check` need no kernel.
LB433 no swarm or cluster
  cause: `--runtime swarm` needs a daemon that manages a swarm; `--runtime kubernetes` needs kubectl and a cluster that
    answers. Nothing was changed.
  example: $ lbgen up topology.yaml -e haproxy --runtime swarm    # on a daemon without a swarm
  remedy: Run `docker swarm init` (or set DOCKER_HOST to a manager), or choose a context that `kubectl` can use.
LB434 a cluster refuses something
  cause: `kubectl` failed; the finding has what it said. What served before serves on.
  example: $ lbgen up topology.yaml -e haproxy --runtime kubernetes    # without the right to create Deployments
  remedy: Do what it says; `kubectl auth can-i --list` shows your rights in the namespace.
LB435 a certificate that could not be obtained
  cause: The order at the ACME authority failed, for the reason in the finding: a name that does not lead here, port 80
    that does not, a limit of the authority. The certificate before serves on, a self-signed one where there was none.
  example: $ lbgen ps    # while shop.example leads elsewhere
  remedy: Mend what the finding says. The agent tries again by itself, first after a minute, later after 6 hours at
    most; after `lbgen reload` at once.
LB436 an engine that lbgen does not run
  cause: The engine is a service that others run, such as a cloud's load balancers: lbgen renders and checks its files.
  example: $ lbgen up topology.yaml -e aws
  remedy: Render and deploy as the finding says; `lbgen verify --against` judges what is deployed.
LB437 something deployed that cannot be verified
  cause: `--against` has a URL that is none of a listener, names no single engine or has a topology with tiers, or
    nothing answers there.
  example: $ lbgen verify topology.yaml -e aws --against https://shop.example    # of a listener without TLS
  remedy: Write the URL as the finding says, or see whether it answers to this host at all (`curl -v URL`).
"""
