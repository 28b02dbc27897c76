// Package docs holds documents that a part of the fabric serves as they are.
package docs

import _ "embed"

// OpenAPI describes the gateway; see package gateway.
//
//go:embed openapi.yaml
var OpenAPI []byte
