package lbgen

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
)

// keyRecorder is a context without values that records by which keys it is asked for one.
type keyRecorder struct {
	context.Context
	keys map[any]bool
}

// Value is called by Traefik's handlers.
func (k *keyRecorder) Value(key any) any {
	k.keys[key] = true
	return nil
}

// findAbsentKeys are the keys by which Traefik's routers look for what no request's context has: a logger, a span, and in each
// matcher for hosts a second name of the host. Such a search goes down to the context of the connection, see headTime. There
// it costs more than the matcher itself, since that context is interpreted; a nil under the same key above it ends the search.
func (e *edge) findAbsentKeys() []any {
	recorder := &keyRecorder{Context: context.Background(), keys: map[any]bool{}}
	_ = httptrace.ContextClientTrace(recorder)
	r, _ := http.NewRequest(http.MethodGet, "http://lbgen/", nil)
	ctx := context.WithValue(recorder, connKey, &conn{})
	ctx = context.WithValue(ctx, stateKey, &state{request: r}) // a state without an edge: no endpoint is asked
	if hostKey != nil {
		ctx = context.WithValue(ctx, hostKey, "lbgen")
	}
	e.next.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
	found := []any{}
	for key := range recorder.keys {
		found = append(found, key)
	}
	return found
}

// without are the keys that a context has no value for.
func without(ctx context.Context, keys []any) []any {
	found := []any{}
	for _, key := range keys {
		if ctx.Value(key) == nil {
			found = append(found, key)
		}
	}
	return found
}
