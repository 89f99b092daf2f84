"""Entry point of the `cdk` command (see cdk.json): cdclake's stacks, with settings from a file and the context."""

import sys
from pathlib import Path

from cdclake.control.jobs.entry import error_line
from cdclake.errors import ConfigurationError
from cdclake_infra.build import build_app
from cdclake_infra.settings_file import SETTINGS_FILE
from cdclake_infra.terraform import write_module

try:
    write_module(Path(build_app(settings_file=SETTINGS_FILE).synth().directory))
except ConfigurationError as error:
    sys.exit(error_line(error))
