package lbgen

import (
	"context"
	"net/http"
	"time"
)

// limitBody refuses longer bodies by their Content-Length, and cuts those without one.
func limitBody(next http.Handler, most int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > most {
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close") // or Go's server would read the body before it answers
			}
			http.Error(w, "Request Entity Too Large", http.StatusRequestEntityTooLarge)
			return
		}
		if r.ContentLength < 0 {
			r.Body = http.MaxBytesReader(w, r.Body, most)
		}
		next.ServeHTTP(w, r)
	})
}

// limitTime ends requests, with all their tries and their bodies, but no WebSockets.
func limitTime(next http.Handler, milliseconds int64) http.Handler {
	most := time.Duration(milliseconds) * time.Millisecond
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), most)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
