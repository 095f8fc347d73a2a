// The Go module github.com/nlpodyssey/safetensors v0.0.0-20250209183917-bfb01cc25f7c.
// Run it with GOTRACEBACK=crash: a panic then ends it by a signal.
// SPDX-License-Identifier: Apache-2.0
package main

import (
	"log"
	"os"

	"github.com/nlpodyssey/safetensors"
)

func main() {
	bytes, err := os.ReadFile(os.Args[1])
	if err == nil {
		_, err = safetensors.Deserialize(bytes)
	}
	if err != nil {
		log.Fatal(err)
	}
}
