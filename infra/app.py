"""What the `cdk` command runs, see cdk.json: cdclake's stacks, with the settings of cdk.json and of `--context`."""

from cdclake_infra.build import build_app

build_app().synth()
