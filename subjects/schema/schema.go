package schema

import "embed"

// Base is what the names of the files in [FS] follow in their $id. It only names them;
// nothing is fetched from there.
const Base = "https://github.com/rollcall-io/rollcall/subjects/schema/"

// FS holds the schemas.
//
//go:embed *.json
var FS embed.FS
