"""nginx: the process and the result of `nginx -t`."""

from __future__ import annotations

from pathlib import Path

from lbgen.engines.api import Binary
from lbgen.engines.nginx import ENGINE
from lbgen.engines.nginx.run import judge
from lbgen.plan.model import Listener, Mode, Plan, Protocol


def test_judge_counts_errors_only():
    assert judge(0, "nginx: [warn] 4096 worker_connections exceed open file resource limit: 1024", {}) == ()
    assert judge(1, 'x\n2026/11/21 10:00:00 [emerg] 1#1: unknown directive "x" in nginx.conf:3\n', {}) == (
        'unknown directive "x" in nginx.conf:3',
    )
    assert judge(127, "", {}) == ("nginx -t ended with 127",)


def test_the_stream_module_is_loaded_where_it_is_a_file(tmp_path: Path):
    listener = Listener("db", "127.0.0.1", 1, Mode.L4, Protocol.TCP, "listeners.db")
    made = Plan("t", (listener,), (), ())
    built_in = ENGINE.process(made, Binary(Path("/x/nginx"), "1.31.3"), tmp_path)
    assert built_in.argv[-1] == "daemon off;"
    modules = (Path("/m/ngx_http_js_module.so"), Path("/m/ngx_stream_module.so"))
    binary = Binary(Path("/x/nginx"), "1.22.1", modules)
    assert ENGINE.process(made, binary, tmp_path).argv[-1] == "load_module /m/ngx_stream_module.so; daemon off;"
    assert "load_module" in " ".join(ENGINE.check(made, binary, tmp_path).argv)
