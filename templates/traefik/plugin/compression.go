package lbgen

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// takesGzip is whether Accept-Encoding names gzip with a quality above zero.
func takesGzip(lines []string) bool {
	for _, line := range lines {
		for _, element := range strings.Split(line, ",") {
			coding, parameters, _ := strings.Cut(element, ";")
			if !strings.EqualFold(strings.Trim(coding, " \t"), "gzip") {
				continue
			}
			name, value, found := strings.Cut(strings.Trim(parameters, " \t"), "=")
			if !found || !strings.EqualFold(strings.Trim(name, " \t"), "q") {
				return true
			}
			quality, err := strconv.ParseFloat(strings.Trim(value, " \t"), 64)
			return err != nil || quality > 0
		}
	}
	return false
}

// fits is whether an answer is to be compressed for a client that takes it.
func (c *Compression) fits(reply *http.Response) bool {
	h := reply.Header
	if reply.StatusCode != http.StatusOK || len(h["Content-Encoding"]) > 0 {
		return false
	}
	if reply.ContentLength >= 0 && reply.ContentLength < int64(c.Min) {
		return false
	}
	if strings.Contains(strings.ToLower(strings.Join(h["Cache-Control"], ",")), "no-transform") {
		return false
	}
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.Trim(kind, " \t"))
	for _, each := range c.Types {
		if each == kind {
			return true
		}
	}
	return false
}

// compress replaces the body; what has come is sent on even if more is to follow.
func compress(reply *http.Response) {
	body := reply.Body
	reader, writer := io.Pipe()
	go func() {
		packed := gzip.NewWriter(writer)
		chunk := make([]byte, 32*1024)
		for {
			n, err := body.Read(chunk)
			if n > 0 {
				if _, failure := packed.Write(chunk[:n]); failure != nil {
					break
				}
				if err == nil && n < len(chunk) {
					_ = packed.Flush()
				}
			}
			if err == io.EOF {
				_ = writer.CloseWithError(packed.Close())
				break
			}
			if err != nil {
				_ = writer.CloseWithError(err)
				break
			}
		}
		_ = body.Close()
	}()
	reply.Body = reader
	reply.ContentLength = -1
	h := reply.Header
	delete(h, "Content-Length")
	delete(h, "Accept-Ranges")
	h.Set("Content-Encoding", "gzip")
	h.Add("Vary", "Accept-Encoding")
	if tag := h.Get("Etag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		h.Set("Etag", "W/"+tag)
	}
}
