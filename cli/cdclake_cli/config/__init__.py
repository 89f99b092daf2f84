"""The file of tables, `cdclake.yml`: reads and writes it, and compares it with the state table.

`read.read_config` reads it, `write.config_text` writes it, and `model.Config` is what it says. `nodes`
reads YAML for the settings of a deployment, too.
"""
