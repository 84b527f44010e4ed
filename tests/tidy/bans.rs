//! The lists of names that a crate may not use, in its code and in its manifest.

/// Names that the code of some files may not use. A name is a crate, or a path into one.
pub(super) struct Ban {
    pub(super) who: fn(&str) -> bool,
    pub(super) names: &'static [&'static str],
    pub(super) advice: &'static str,
}

pub(super) const BANS: [Ban; 31] = [
    Ban {
        who: |path| path.starts_with("actors/") && !path.starts_with("actors/connection"),
        names: &["wire"],
        advice: "only actors/connection* speaks the protocol; translate there and pass the domain's words on",
    },
    Ban {
        who: |path| !path.starts_with("crates/wire/"),
        names: &["wire::v1", "wire::v2"],
        advice: "only wire knows the versions of the protocol; ask `wire::ProtocolVersion` or `wire::Translator`",
    },
    Ban {
        who: |path| path.starts_with("actors/"),
        names: &[
            "std::fs",
            "std::net",
            "std::os::unix",
            "rustix",
            "tokio::fs",
            "tokio::net",
            "interprocess",
            "reqwest",
        ],
        advice: "actors do no I/O; put it behind a port of `domain` and hand it in through `Ports`",
    },
    Ban {
        who: |path| ["actors/", "crates/domain/", "crates/wire/"].iter().any(|folder| path.starts_with(folder)),
        names: &[
            "std::process::Command",
            "std::sync::Barrier",
            "std::sync::Condvar",
            "std::sync::mpsc",
            "std::thread::park",
            "std::thread::scope",
            "std::thread::spawn",
        ],
        advice: "this code runs on the threads of actors, which must not wait; put it behind a port of `domain`",
    },
    Ban {
        who: |path| path.starts_with("actors/cursor"),
        names: &["crate::connection"],
        advice: "a cursor reads on when its `OutboxGate` has room; which client that is for, only the Connection knows",
    },
    Ban {
        who: |path| path.starts_with("crates/domain/"),
        names: &["actix", "tokio", "agent_client_protocol", "std::fs", "std::net", "wire"],
        advice: "domain is vocabulary and ports; move the code to the crate that may know this",
    },
    Ban {
        who: |path| path.starts_with("crates/wire/"),
        names: &["actix", "tokio", "std::fs", "std::net", "acpd_actors", "models", "tools", "history"],
        advice: "wire is pure translation; do the I/O in src/ or in actors/connection*",
    },
    Ban {
        who: |path| path.starts_with("crates/bridge/src/") && !path.contains("/interleavings"),
        names: &[
            "actix",
            "tokio",
            "reqwest",
            "clap",
            "acpd_actors",
            "models",
            "tools",
            "history",
            "terminal",
            "process",
        ],
        advice: "one bridge runs per editor window, so it stays small; put this into src/ or a crate of its own",
    },
    Ban {
        who: |path| path.starts_with("crates/testkit/") || path.starts_with("tests/conversations/"),
        names: &["wire"],
        advice: "the testkit is an independent witness; write and read raw JSON",
    },
    Ban {
        who: |path| path.starts_with("crates/conformance/"),
        names: &["wire", "domain", "acpd_actors", "testkit"],
        advice: "conformance knows the official schemas and JSON alone, so that it is an independent witness",
    },
    Ban {
        who: |path| path.starts_with("crates/models/"),
        names: &["actix", "agent_client_protocol", "agent_client_protocol_schema", "wire", "acpd_actors", "tools"],
        advice: "models know neither ACP nor actix nor tools; use the types of `domain::model`",
    },
    Ban {
        who: |path| path.starts_with("crates/policy/src/") && !path.ends_with("fuzz.rs"),
        names: &[
            "std::fs",
            "std::net",
            "std::process",
            "tokio",
            "rustix",
            "process",
            "project",
            "mcp",
            "hooks",
            "tools",
        ],
        advice: "policy decides from texts alone; look things up in crates/project or crates/process and pass them in",
    },
    Ban {
        who: |path| path.starts_with("crates/process/"),
        names: &["mcp", "project", "hooks", "tools", "models", "domain::model", "actix", "wire", "acpd_actors"],
        advice: "process starts and confines; what is run and why belongs to its callers",
    },
    Ban {
        who: |path| path.starts_with("crates/mcp/"),
        names: &["policy", "project", "hooks", "tools", "models", "domain::model", "actix", "wire", "acpd_actors"],
        advice: "mcp talks with servers; permission is decided by the registry and the session",
    },
    Ban {
        who: |path| path.starts_with("crates/system/"),
        names: &["domain", "wire", "process", "bridge", "tokio", "actix", "acpd_actors"],
        advice: "system asks the operating system and knows nothing about acpd",
    },
    Ban {
        who: |path| path.starts_with("crates/lsp/"),
        names: &["policy", "project", "hooks", "tools", "mcp", "models", "domain::model", "actix", "acpd_actors"],
        advice: "lsp talks with language servers; the registry decides whose findings join an outcome",
    },
    Ban {
        who: |path| path.starts_with("crates/agents/"),
        names: &["policy", "project", "hooks", "tools", "mcp", "models", "domain::model", "actix", "acpd_actors"],
        advice: "agents speaks with child agents; what is asked, recorded and shown is decided by the session",
    },
    Ban {
        who: |path| path.starts_with("crates/project/") || path.starts_with("crates/hooks/"),
        names: &["mcp", "tools", "models", "domain::model", "actix", "wire", "acpd_actors"],
        advice: "project and hooks get calls as types of `domain`; they know no tool",
    },
    Ban {
        who: |path| path.starts_with("crates/tools/"),
        names: &["models", "domain::model", "actix", "wire", "acpd_actors"],
        advice: "tools know no models and no protocol; use the types of `domain::tool`",
    },
    Ban {
        who: |path| path.starts_with("crates/network/"),
        names: &["actix", "domain", "wire", "models", "tools", "acpd_actors"],
        advice: "network knows HTTP clients alone; where its settings come from is src/config/resolved_network.rs",
    },
    Ban {
        who: |path| path.starts_with("crates/attachments/"),
        names: &["actix", "domain", "wire", "models", "tools", "process", "acpd_actors"],
        advice: "attachments convert bytes; what they are for belongs to their callers",
    },
    Ban {
        who: |path| path.starts_with("crates/history/"),
        names: &["actix", "wire", "acpd_actors", "models", "tools"],
        advice: "history knows sled, the domain and the operating system; nothing else",
    },
    Ban {
        who: |path| path.starts_with("crates/http/"),
        names: &["models", "tools", "mcp", "policy", "process", "history", "anyhow", "acpd"],
        advice: "http carries messages between clients and Connections; the program passes the rest in through `Parts`",
    },
    Ban {
        who: |path| path.starts_with("crates/terminal/"),
        names: &[
            "actix",
            "tokio",
            "wire",
            "acpd_actors",
            "acpd_http",
            "models",
            "tools",
            "history",
            "std::fs",
            "std::net",
        ],
        advice: "terminal turns data into text; subcommands in src/commands fetch the data and read keys",
    },
    Ban {
        who: |path| !path.starts_with("crates/domain/"),
        names: &["jiff"],
        advice: "times are `domain::Millis`, which reads and writes them",
    },
    Ban {
        who: |path| !path.starts_with("crates/history/"),
        names: &["sled"],
        advice: "only crates/history knows sled; ask it through `domain::history::History`",
    },
    Ban {
        who: |path| !path.starts_with("crates/wire/"),
        names: &["agent_client_protocol_schema"],
        advice: "only crates/wire names ACP types; translate in its decode and encode modules",
    },
    Ban {
        who: |path| path != "tests/process/sdk.rs",
        names: &["agent_client_protocol"],
        advice: "the protocol's SDK is a client in one test; it is not part of the program",
    },
    Ban {
        who: |path| {
            let accounts = [
                "src/assemble.rs",
                "src/assemble/accounts.rs",
                "src/config.rs",
                "src/config/defaults_tests.rs",
                "src/commands/login.rs",
            ];
            path.starts_with("src/") && !accounts.contains(&path)
        },
        names: &["models"],
        advice: "src/assemble.rs alone chooses the models; only accounts and their configuration know providers",
    },
    Ban {
        who: |path| {
            let printers = ["src/commands/json_output.rs", "src/commands/setup/jsonc.rs"];
            path.starts_with("src/commands") && !printers.contains(&path)
        },
        names: &["serde_json::to_string", "serde_json::to_string_pretty", "serde_json::to_writer"],
        advice: "src/commands/json_output.rs alone prints JSON, because a terminal must not get control characters; \
                 printing a `Value` is not noticed here",
    },
    Ban {
        who: |path| !path.starts_with("actors/"),
        names: &["actix::prelude"],
        advice: "import what you need by name; the prelude's names clash with ours",
    },
];

/// Crates that a member's manifest may not depend on: cargo then refuses the import before a test
/// does.
pub(super) const MANIFEST_BANS: [(&str, &[&str]); 18] = [
    ("actors/Cargo.toml", &["sled", "reqwest", "interprocess", "agent-client-protocol-schema", "models", "tools"]),
    ("crates/domain/Cargo.toml", &["actix", "tokio", "agent-client-protocol-schema", "wire", "sled"]),
    ("crates/wire/Cargo.toml", &["actix", "tokio", "acpd-actors"]),
    ("crates/models/Cargo.toml", &["actix", "agent-client-protocol-schema", "wire", "tools", "acpd-actors"]),
    (
        "crates/bridge/Cargo.toml",
        &["actix", "tokio", "reqwest", "clap", "acpd-actors", "models", "tools", "history", "terminal", "process"],
    ),
    (
        "crates/policy/Cargo.toml",
        &[
            "tokio",
            "rustix",
            "process",
            "project",
            "mcp",
            "hooks",
            "tools",
            "actix",
            "agent-client-protocol-schema",
            "wire",
            "models",
            "acpd-actors",
        ],
    ),
    (
        "crates/process/Cargo.toml",
        &["project", "mcp", "hooks", "tools", "actix", "agent-client-protocol-schema", "wire", "models", "acpd-actors"],
    ),
    (
        "crates/mcp/Cargo.toml",
        &[
            "policy",
            "project",
            "hooks",
            "tools",
            "actix",
            "agent-client-protocol-schema",
            "wire",
            "models",
            "acpd-actors",
        ],
    ),
    (
        "crates/project/Cargo.toml",
        &["mcp", "hooks", "tools", "actix", "agent-client-protocol-schema", "wire", "models", "acpd-actors"],
    ),
    (
        "crates/hooks/Cargo.toml",
        &["project", "mcp", "tools", "actix", "agent-client-protocol-schema", "wire", "models", "acpd-actors"],
    ),
    ("crates/tools/Cargo.toml", &["actix", "agent-client-protocol-schema", "wire", "models", "acpd-actors"]),
    ("crates/network/Cargo.toml", &["actix", "domain", "wire", "models", "tools", "acpd-actors"]),
    ("crates/attachments/Cargo.toml", &["actix", "domain", "wire", "models", "tools", "process", "acpd-actors"]),
    ("crates/history/Cargo.toml", &["actix", "wire", "models", "tools", "acpd-actors"]),
    ("crates/http/Cargo.toml", &["models", "tools", "mcp", "policy", "process", "history", "sled", "anyhow"]),
    (
        "crates/terminal/Cargo.toml",
        &["actix", "tokio", "wire", "acpd-actors", "acpd-http", "models", "tools", "history"],
    ),
    ("crates/testkit/Cargo.toml", &["wire", "sled", "models"]),
    ("crates/conformance/Cargo.toml", &["wire", "domain", "acpd-actors", "testkit"]),
];
