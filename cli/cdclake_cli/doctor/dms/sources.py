"""What each kind of source needs: settings of its DMS endpoint, and settings and steps in the database. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from cdclake_cli.doctor.dms.setting import GUIDE, Check, Setting, Source
from cdclake_cli.doctor.findings import Severity

_ERROR, _WARNING, _NOTE = Severity
_MYSQL = f"{GUIDE}CHAP_Source.MySQL.html"
_POSTGRES = f"{GUIDE}CHAP_Source.PostgreSQL.html"
_ORACLE = f"{GUIDE}CHAP_Source.Oracle.html"
_SQLSERVER = f"{GUIDE}CHAP_Source.SQLServer.html"
_POSTGRES_API = "https://docs.aws.amazon.com/dms/latest/APIReference/API_PostgreSQLSettings.html"
_LOB = f"{GUIDE}CHAP_Tasks.LOBSupport.html"
_LOB_CHECK = Check(_WARNING, default=False)
_LOB_FAILS = "The task fails at a LOB longer than LobMaxSize instead of cutting it"
_LOB_SIZE = "LobMaxSize must be at least so many kilobytes; run this for each LOB column"


@dataclass(frozen=True)
class SourceAdvice:
    """What a kind of source needs.

    Attributes:
        engines: Names of its engines in DMS.
        api_name: The endpoint's settings in the DMS API.
        option: The option of `aws dms modify-endpoint` for them.
        endpoint: Settings of the source endpoint, besides the connection.
        parameters: Parameters of the database: of its parameter group on RDS, or of its configuration file.
        steps: SQL to run in the database.
    """

    engines: tuple[str, ...]
    api_name: str
    option: str
    endpoint: tuple[Setting, ...]
    parameters: tuple[Setting, ...]
    steps: tuple[Setting, ...]


SOURCES = {
    Source.MYSQL: SourceAdvice(
        engines=("mysql", "mariadb", "aurora"),
        api_name="MySQLSettings",
        option="--my-sql-settings",
        endpoint=(),
        parameters=(
            Setting(
                "binlog_format",
                "ROW",
                "DMS reads rows from the binlog, which other formats may lack",
                f"{_MYSQL}#CHAP_Source.MySQL.AmazonManaged",
            ),
            Setting(
                "binlog_row_image",
                "FULL",
                "Otherwise updates lack the columns that did not change",
                f"{_MYSQL}#CHAP_Source.MySQL.AmazonManaged",
            ),
            Setting("binlog_checksum", "NONE", "DMS requires it", f"{_MYSQL}#CHAP_Source.MySQL.AmazonManaged"),
        ),
        steps=(
            Setting(
                "Binlog retention on RDS and Aurora",
                "CALL mysql.rds_set_configuration('binlog retention hours', 24);",
                "Otherwise RDS purges the binlog as soon as possible; DMS must read it first, also after a pause",
                f"{_MYSQL}#CHAP_Source.MySQL.AmazonManaged",
            ),
            Setting(
                "Binlog retention on your own server",
                "SET PERSIST binlog_expire_logs_seconds = 86400;",
                "A day, so that DMS can pause; MariaDB and MySQL before 8.0: expire_logs_days = 1",
                f"{_MYSQL}#CHAP_Source.MySQL.CustomerManaged",
            ),
            Setting(
                "Privileges",
                "GRANT REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO 'dms'@'%';\n"
                "GRANT SELECT ON <schema>.* TO 'dms'@'%';",
                "DMS reads the binlog and the tables",
                f"{_MYSQL}#CHAP_Source.MySQL.Prerequisites",
            ),
            Setting(
                "Largest LOB",
                "SELECT CEIL(MAX(OCTET_LENGTH(<column>)) / 1024) FROM <schema>.<table>;",
                f"{_LOB_SIZE} (MEDIUMTEXT, LONGTEXT, JSON, MEDIUMBLOB, LONGBLOB)",
                _LOB,
            ),
        ),
    ),
    Source.POSTGRES: SourceAdvice(
        engines=("postgres", "aurora-postgresql"),
        api_name="PostgreSQLSettings",
        option="--postgre-sql-settings",
        endpoint=(
            Setting(
                "HeartbeatEnable",
                True,
                "Keeps the slot moving while the tables are idle; otherwise WAL may fill the source's storage",
                _POSTGRES_API,
                Check(_NOTE, default=False),
            ),
            Setting(
                "PluginName",
                "test-decoding",
                "The plugin that supports REPLICA IDENTITY FULL; DMS prefers pglogical where it is installed",
                f"{_POSTGRES}#CHAP_Source.PostgreSQL.Security",
                Check(_WARNING, default="no-preference", also=("no-preference",)),
            ),
            Setting("FailTasksOnLobTruncation", True, _LOB_FAILS, _POSTGRES_API, _LOB_CHECK),
        ),
        parameters=(
            Setting(
                "rds.logical_replication",
                "1",
                "Logical replication on RDS and Aurora, after a restart; on your own server: wal_level = logical",
                f"{_POSTGRES}#CHAP_Source.PostgreSQL.RDSPostgreSQL.CDC",
            ),
            Setting(
                "wal_sender_timeout",
                "0",
                "Never ends DMS's connection; DMS refuses values between 0 and 10000 milliseconds",
                f"{_POSTGRES}#CHAP_Source.PostgreSQL.RDSPostgreSQL.CDC",
            ),
        ),
        steps=(
            Setting(
                "Whole rows in the log",
                "ALTER TABLE <schema>.<table> REPLICA IDENTITY FULL;",
                "Otherwise long values (TOAST) that an update does not change arrive as null; writes more WAL",
                f"{_POSTGRES}#CHAP_Source.PostgreSQL.Advanced",
            ),
            Setting(
                "Tables without a primary key",
                "SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace\n"
                "WHERE c.relkind = 'r' AND n.nspname = '<schema>'\n"
                "  AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary);",
                "DMS does not send their updates and deletes: give them a primary key",
                f"{_POSTGRES}#CHAP_Source.PostgreSQL.Limitations",
            ),
            Setting(
                "Numbers without precision",
                "SELECT table_name, column_name FROM information_schema.columns\n"
                "WHERE table_schema = '<schema>' AND data_type = 'numeric' AND numeric_precision IS NULL;",
                "DMS sends them as NUMERIC(28,6) and cuts more digits: declare precision and scale",
                f"{_POSTGRES}#CHAP_Source.PostgreSQL.Limitations",
            ),
            Setting(
                "Largest LOB",
                "SELECT CEIL(MAX(OCTET_LENGTH(<column>::text)) / 1024.0) FROM <schema>.<table>;",
                f"{_LOB_SIZE} (text, json, jsonb, xml; bytea without ::text)",
                _LOB,
            ),
        ),
    ),
    Source.ORACLE: SourceAdvice(
        engines=("oracle",),
        api_name="OracleSettings",
        option="--oracle-settings",
        endpoint=(
            Setting(
                "NumberDatatypeScale",
                -2,
                "NUMBER without precision arrives as exact text (declare its type in Schema); the default keeps"
                " 10 decimal places",
                f"{_ORACLE}#CHAP_Source.Oracle.ConnectionAttrib",
                Check(_WARNING, any_value=True),
            ),
            Setting(
                "FailTasksOnLobTruncation",
                True,
                _LOB_FAILS,
                f"{_ORACLE}#CHAP_Source.Oracle.ConnectionAttrib",
                _LOB_CHECK,
            ),
        ),
        parameters=(),
        steps=(
            Setting(
                "ARCHIVELOG mode",
                "SELECT log_mode FROM v$database;",
                "Must be ARCHIVELOG, or DMS cannot read changes; on RDS, turn on automatic backups",
                f"{_ORACLE}#CHAP_Source.Oracle.Self-Managed.Configuration.ArchiveLogMode",
            ),
            Setting(
                "Log retention on RDS",
                "exec rdsadmin.rdsadmin_util.set_configuration('archivelog retention hours', 24);\ncommit;",
                "DMS must read the logs before RDS removes them, also after a pause",
                f"{_ORACLE}#CHAP_Source.Oracle.Amazon-Managed.Configuration",
            ),
            Setting(
                "Supplemental logging of the database, on RDS",
                "exec rdsadmin.rdsadmin_util.alter_supplemental_logging('ADD');",
                "DMS requires it",
                f"{_ORACLE}#CHAP_Source.Oracle.Amazon-Managed.Configuration",
            ),
            Setting(
                "Supplemental logging of the database, on your own server",
                "ALTER DATABASE ADD SUPPLEMENTAL LOG DATA;",
                "DMS requires it",
                f"{_ORACLE}#CHAP_Source.Oracle.Self-Managed.Configuration.SupplementalLogging",
            ),
            Setting(
                "Supplemental logging of all columns",
                "ALTER TABLE <schema>.<table> ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS;",
                "Otherwise updates lack the columns that did not change; AWS asks for it with S3 targets",
                f"{_ORACLE}#CHAP_Source.Oracle.Limitations",
            ),
            Setting(
                "Largest LOB",
                "SELECT CEIL(MAX(DBMS_LOB.GETLENGTH(<column>)) / 1024) FROM <schema>.<table>;",
                f"{_LOB_SIZE}; GETLENGTH counts characters of a CLOB, so allow for longer ones",
                _LOB,
            ),
        ),
    ),
    Source.SQLSERVER: SourceAdvice(
        engines=("sqlserver",),
        api_name="MicrosoftSQLServerSettings",
        option="--microsoft-sql-server-settings",
        endpoint=(),
        parameters=(),
        steps=(
            Setting(
                "Recovery model, on your own server",
                "ALTER DATABASE <database> SET RECOVERY FULL;",
                "DMS requires full or bulk-logged recovery, and a full backup before it starts",
                f"{_SQLSERVER}#CHAP_Source.SQLServer.Prerequisites",
            ),
            Setting(
                "MS-CDC of the database, on RDS",
                "EXEC msdb.dbo.rds_cdc_enable_db '<database>';",
                "DMS reads changes from an RDS database through MS-CDC",
                f"{_SQLSERVER}#CHAP_Source.SQLServer.Configuration",
            ),
            Setting(
                "MS-CDC of the database, on your own server",
                "USE <database>;\nEXEC sys.sp_cdc_enable_db;",
                "For tables without a primary key; for others DMS uses MS-Replication, which needs a distributor",
                f"{_SQLSERVER}#CHAP_Source.SQLServer.CDC",
            ),
            Setting(
                "MS-CDC of a table with a primary key, on RDS",
                "EXEC sys.sp_cdc_enable_table @source_schema = N'<schema>', @source_name = N'<table>',\n"
                "  @role_name = NULL, @supports_net_changes = 1;",
                "Otherwise DMS does not read its changes; without a primary key or unique index omit the last argument",
                f"{_SQLSERVER}#CHAP_Source.SQLServer.Configuration",
            ),
            Setting(
                "Log retention, on RDS",
                "USE <database>;\n"
                "EXEC sys.sp_cdc_change_job @job_type = 'capture', @pollinginterval = 86399;\n"
                "EXEC sys.sp_cdc_stop_job 'capture';\nEXEC sys.sp_cdc_start_job 'capture';",
                "The log keeps changes for a day; some versions reset values above 3599 to 5 seconds (KB 4459220)",
                f"{_SQLSERVER}#CHAP_Source.SQLServer.Configuration",
            ),
            Setting(
                "Largest LOB",
                "SELECT CEILING(MAX(DATALENGTH(<column>)) / 1024.0) FROM <schema>.<table>;",
                f"{_LOB_SIZE} (varchar(max), nvarchar(max), varbinary(max), xml, text, ntext, image)",
                _LOB,
            ),
        ),
    ),
}
"""What each kind of source needs. DMS's endpoints of MySQL and SQL Server need no settings besides the connection."""
