// Package config holds the settings of `onced serve` and of `onced gateway`: the structs they live in,
// how a flag, the environment and the YAML file are merged into it, and the
// checks that refuse impossible values and unsafe combinations.
//
// Invariants:
//
//   - Every setting has one name, written three ways: --node-id, ONCED_NODE_ID
//     and node_id. The field's `name` tag is that name; [TestNames] holds the
//     YAML key to it.
//   - A flag wins over the environment, that over the file, that over the default.
//   - [Load] and [LoadGateway] return settings that hold every check, or one error of one line
//     that names the setting and says what is expected. It changes nothing on disk.
//   - A setting that nothing honours does not exist here.
package config
