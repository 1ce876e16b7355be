//go:build grpc

// The client of grpc-go: prints what it got for each part of its work, as JSON.
//
//	grpc HOST:PORT CA-FILE     CA-FILE "" = without TLS
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const service = "/lbgen.test.Calls/"

// raw passes messages on as they are.
type raw struct{}

func (raw) Marshal(value any) ([]byte, error)      { return *value.(*[]byte), nil }
func (raw) Unmarshal(data []byte, value any) error { *value.(*[]byte) = data; return nil }
func (raw) Name() string                           { return "proto" }

type answer map[string]any

var connection *grpc.ClientConn

func limited(seconds float64) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
}

func failure(err error) answer {
	return answer{"code": status.Code(err).String(), "message": status.Convert(err).Message()}
}

func unary(method string, request []byte, options ...grpc.CallOption) ([]byte, error) {
	ctx, cancel := limited(10)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "x-one", "1", "x-two", "a, b", "x-blob-bin", "\x00\xfe")
	var got []byte
	err := connection.Invoke(ctx, service+method, &request, &got, options...)
	return got, err
}

// stream sends the requests, then reads to the end.
func stream(method string, seconds float64, client bool, requests ...[]byte) ([]string, error) {
	ctx, cancel := limited(seconds)
	defer cancel()
	description := grpc.StreamDesc{ServerStreams: true, ClientStreams: client}
	made, err := connection.NewStream(ctx, &description, service+method)
	if err != nil {
		return nil, err
	}
	go func() {
		for _, each := range requests {
			made.SendMsg(&each)
		}
		made.CloseSend()
	}()
	found := []string{}
	for {
		var got []byte
		if err := made.RecvMsg(&got); err == io.EOF {
			return found, nil
		} else if err != nil {
			return found, err
		}
		found = append(found, string(got))
	}
}

func own(fields metadata.MD) answer {
	return answer{"x-trailing": fields.Get("x-trailing"), "x-blob-bin": fields.Get("x-blob-bin"), "x-reason": fields.Get("x-reason")}
}

func main() {
	secure := insecure.NewCredentials()
	if os.Args[2] != "" {
		made, err := credentials.NewClientTLSFromFile(os.Args[2], "")
		if err != nil {
			panic(err)
		}
		secure = made
	}
	limit := grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(1<<25), grpc.MaxCallSendMsgSize(1<<25))
	var err error
	if connection, err = grpc.NewClient("passthrough:///"+os.Args[1], grpc.WithTransportCredentials(secure), limit); err != nil {
		panic(err)
	}
	done := answer{}
	var trailer metadata.MD
	got, err := unary("Unary", []byte("hello"), grpc.Trailer(&trailer))
	done["unary"] = answer{"message": string(got), "trailer": own(trailer), "failure": failure(err)}
	got, err = unary("Unary", bytes.Repeat([]byte("0123456789"), 800_000))
	done["large"] = answer{"message": string(got), "failure": failure(err)}
	trailer = nil
	_, err = unary("Missing", []byte("x"), grpc.Trailer(&trailer))
	done["not found"] = answer{"failure": failure(err), "trailer": own(trailer)}
	counts := map[string]int{}
	for number := 0; number < 60; number++ {
		_, err = unary("Missing", []byte("x"))
		counts[fmt.Sprint(failure(err))]++
	}
	done["60 not found"] = counts
	found, err := stream("ServerStream", 10, false, []byte("500"))
	done["server stream"] = answer{"messages": found, "failure": failure(err)}
	found, err = stream("ClientStream", 10, true, bytes.Repeat([]byte("x"), 1000), []byte("yy"), nil)
	done["client stream"] = answer{"messages": found, "failure": failure(err)}
	found, err = stream("Bidi", 10, true, []byte("a"), bytes.Repeat([]byte("b"), 100_000), nil)
	done["bidi"] = answer{"messages": found, "failure": failure(err)}
	found, err = stream("BrokenStream", 10, false, []byte("x"))
	done["error after messages"] = answer{"messages": found, "failure": failure(err)}
	_, err = stream("Wait", 0.5, false, []byte("x"))
	done["deadline"] = answer{"code": status.Code(err).String()}
	got, err = unary("Unary", []byte("next"))
	done["next"] = answer{"message": string(got), "failure": failure(err)}
	json.NewEncoder(os.Stdout).Encode(done)
}
