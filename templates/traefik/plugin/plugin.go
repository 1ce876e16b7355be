// Package lbgen is a Traefik middleware for what Traefik's own middlewares lack. An instance does what its
// configuration names; it uses nothing but the public API of plugins.
package lbgen

import (
	"context"
	"errors"
	"net/http"
)

// Config has one field per job. Requests goes on an entry point or a router above all others, the rest on routes.
type Config struct {
	Requests   *Requests
	Guard      *Guard // on entry points of Traefik 3.6
	Respond    *Respond
	Redirect   *Redirect
	MaxBody    *int64
	Timeout    int64 // milliseconds
	HashBy     *HashBy
	ErrorPages *ErrorPages
	Values     *Values
}

// CreateConfig is called by Traefik before it fills in what the file says.
func CreateConfig() *Config {
	return &Config{}
}

// New is called by Traefik for each use of the middleware.
func New(_ context.Context, next http.Handler, config *Config, _ string) (http.Handler, error) {
	switch {
	case config.Requests != nil:
		return serveRequests(next, config.Requests)
	case config.Guard != nil:
		return guard(next, config.Guard.DropUnderscores), nil
	case config.Respond != nil:
		return serveResponse(config.Respond)
	case config.Redirect != nil:
		return serveRedirect(config.Redirect)
	case config.MaxBody != nil:
		return limitBody(next, *config.MaxBody), nil
	case config.Timeout > 0:
		return limitTime(next, config.Timeout), nil
	case config.ErrorPages != nil:
		return showPages(next, config.ErrorPages), nil
	case config.HashBy != nil:
		return hashBy(next, config.HashBy), nil
	case config.Values != nil:
		return writeValues(next, config.Values)
	}
	return nil, errors.New("a middleware of lbgen without a job")
}
