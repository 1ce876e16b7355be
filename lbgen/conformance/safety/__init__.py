"""The safety judge: whatever arrives at a listener, and however the engine refuses it,

S1 an endpoint never sees another request than the one that the rules saw: one request stays one, with the path, host
   and method that were matched;
S2 no client can set, hide or remove a field that lbgen sets, checks or routes by;
S3 a rule on a path cannot be passed by another spelling of it;
S4 one client's malformed or oversized traffic does not stop others.

Hostile requests (`corpus.yaml`) are sent to an engine. Only two things are judged: the bytes that reach an endpoint
(`endpoint.py`), which the oracle reads as the endpoint does (`judge.py`), and what another client gets meanwhile.
"""
