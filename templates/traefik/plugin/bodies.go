package lbgen

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// limitBody refuses longer bodies by their Content-Length, and cuts those without one.
func limitBody(next http.Handler, most int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > most {
			refuseBody(w, r)
			return
		}
		if r.ContentLength < 0 {
			body := &cutBody{body: http.MaxBytesReader(w, r.Body, most)}
			r.Body = body
			// A call of gRPC may wait for the head of its answer, which no writer of a plugin can flush.
			if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
				w = &cutWriter{w: w, r: r, body: body}
			}
		}
		next.ServeHTTP(w, r)
	})
}

func refuseBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // or Go's server would read the body before it answers
	}
	http.Error(w, "Request Entity Too Large", http.StatusRequestEntityTooLarge)
}

// cutBody notes that a body was longer than allowed.
type cutBody struct {
	body  io.ReadCloser
	isCut bool
}

func (c *cutBody) Read(data []byte) (int, error) {
	n, err := c.body.Read(data)
	if err != nil && err != io.EOF {
		var tooLong *http.MaxBytesError
		c.isCut = c.isCut || errors.As(err, &tooLong)
	}
	return n, err
}

func (c *cutBody) Close() error {
	return c.body.Close()
}

// cutWriter answers with 413 where Traefik says 500 of a body that was cut.
type cutWriter struct {
	w        http.ResponseWriter
	r        *http.Request
	body     *cutBody
	begun    bool
	replaces bool
}

func (c *cutWriter) Header() http.Header {
	return c.w.Header()
}

func (c *cutWriter) WriteHeader(status int) {
	if c.begun {
		return
	}
	if status < 200 {
		c.w.WriteHeader(status)
		return
	}
	c.begun = true
	if c.replaces = c.body.isCut && status >= 500; c.replaces {
		refuseBody(c.w, c.r)
		return
	}
	c.w.WriteHeader(status)
}

// Write sends on at once what a stream brings, as that of pageWriter does.
func (c *cutWriter) Write(data []byte) (int, error) {
	if !c.begun {
		c.WriteHeader(http.StatusOK)
	}
	if c.replaces {
		return len(data), nil
	}
	n, err := c.w.Write(data)
	if flusher, ok := c.w.(http.Flusher); ok && err == nil {
		flusher.Flush()
	}
	return n, err
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
