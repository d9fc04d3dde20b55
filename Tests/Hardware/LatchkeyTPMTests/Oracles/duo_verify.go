// Verifies WebAuthn attestation objects with duo-labs/webauthn (Debian: golang-github-duo-labs-webauthn-dev).
//
// Reads lines of two words in base64: the attestation object, and the SHA-256 of the client data. Prints a line for each:
// "verified" or the library's refusal. The library does not check the chain of certificates.
package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"github.com/duo-labs/webauthn/protocol"
	"github.com/duo-labs/webauthn/protocol/webauthncbor"
)

func verify(line string) string {
	var words [][]byte
	for _, text := range strings.Fields(line) {
		word, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fmt.Sprintf("base64: %v", err)
		}
		words = append(words, word)
	}
	if len(words) != 2 {
		return "the line does not have two words"
	}
	var object protocol.AttestationObject
	if err := webauthncbor.Unmarshal(words[0], &object); err != nil {
		return fmt.Sprintf("object: %v", err)
	}
	if err := object.AuthData.Unmarshal(object.RawAuthData); err != nil {
		return fmt.Sprintf("authData: %v", err)
	}
	err := object.Verify("id.example.com", words[1], true)
	if refusal, ok := err.(*protocol.Error); ok {
		return fmt.Sprintf("%s: %s", refusal.Type, strings.TrimSpace(refusal.Details))
	} else if err != nil {
		return err.Error()
	}
	return "verified"
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fmt.Println(verify(lines.Text()))
	}
}
