"""Entry point of the `cdk` command (see cdk.json): cdclake's stacks, with settings from cdk.json and `--context`."""

import sys

from cdclake.control.jobs.entry import error_line
from cdclake.errors import ConfigurationError
from cdclake_infra.build import build_app

try:
    build_app().synth()
except ConfigurationError as error:
    sys.exit(error_line(error))
