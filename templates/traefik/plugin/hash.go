package lbgen

import (
	"math/rand"
	"net"
	"net/http"
	"net/url"
	"strconv"
)

// HashBy names what requests are balanced by: a header, a cookie or a query parameter.
type HashBy struct {
	Header string
	Cookie string
	Query  string
}

// hashBy makes the key the request's address, which Traefik's strategy hrw hashes. Without a port Traefik's proxy adds
// nothing to X-Forwarded-For, so the peer is added here. A request without the key goes anywhere.
func hashBy(next http.Handler, config *HashBy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
			addForwardedFor(r, hostOf(r.RemoteAddr))
		}
		key := keyOf(r, config)
		if key == "" {
			key = strconv.Itoa(rand.Int())
		}
		r.RemoteAddr = url.QueryEscape(key)
		next.ServeHTTP(w, r)
	})
}

func keyOf(r *http.Request, config *HashBy) string {
	switch {
	case config.Header != "":
		return r.Header.Get(config.Header)
	case config.Query != "":
		return r.URL.Query().Get(config.Query)
	}
	cookie, err := r.Cookie(config.Cookie)
	if err != nil {
		return ""
	}
	return cookie.Value
}
