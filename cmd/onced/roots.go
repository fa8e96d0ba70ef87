package main

// An image from scratch has no certificates of the public authorities, and the gateway may stand before an https
// service. These are used only where the machine has none.
import _ "golang.org/x/crypto/x509roots/fallback"
