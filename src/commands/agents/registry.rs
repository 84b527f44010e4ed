//! Reads an agent from a file in the format of the ACP registry's `agent.json`.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::Candidate;

#[derive(Deserialize)]
struct Entry {
    id: String,
    name: Option<String>,
    version: Option<String>,
    distribution: Distribution,
}

#[derive(Deserialize)]
struct Distribution {
    npx: Option<Package>,
    uvx: Option<Package>,
    #[serde(default)]
    binary: BTreeMap<String, Archive>,
}

#[derive(Deserialize)]
struct Package {
    package: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Archive {
    archive: String,
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// Parses the file. A package is started by its runner, which downloads it at the first start. An
/// archive has to be unpacked by hand, and its program is expected on PATH.
pub(super) fn read(text: &str, platform: &str) -> anyhow::Result<Candidate> {
    let Entry { id, name, version, distribution } =
        serde_json::from_str(text).context("not a registry's agent.json")?;
    let title = [name.unwrap_or_else(|| id.clone()), version.unwrap_or_default()].join(" ").trim_end().to_owned();
    let Distribution { npx, uvx, mut binary } = distribution;
    if let Some(Package { package, args, env }) = npx {
        let args = ["--yes".to_owned(), package].into_iter().chain(args).collect();
        let install = "npx downloads the package when the agent is first started; it comes with Node.js".to_owned();
        return Ok(Candidate { name: id, title, command: "npx".to_owned(), args, env, install });
    }
    if let Some(Package { package, args, env }) = uvx {
        let args = [package].into_iter().chain(args).collect();
        let install = "uvx downloads the package when the agent is first started; it comes with uv".to_owned();
        return Ok(Candidate { name: id, title, command: "uvx".to_owned(), args, env, install });
    }
    let Some(Archive { archive, cmd, args, env }) = binary.remove(platform) else {
        let there: Vec<String> = binary.into_keys().collect();
        bail!("`{id}` has no program for {platform}; it has some for: {}", there.join(", "));
    };
    let command = cmd.rsplit('/').next().unwrap_or(&cmd).to_owned();
    let install = format!("download {archive}, unpack it, and put `{cmd}` on your PATH");
    Ok(Candidate { name: id, title, command, args, env, install })
}

/// Returns the registry's name for the platform of this machine.
pub(super) fn platform() -> String {
    let os = if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS };
    format!("{os}-{}", std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn candidate(distribution: serde_json::Value) -> anyhow::Result<Candidate> {
        let entry = json!({ "id": "mine", "name": "Mine", "version": "1.2", "distribution": distribution });
        read(&entry.to_string(), "linux-x86_64")
    }

    #[test]
    fn packages_are_started_by_their_runners_and_archives_by_their_program() {
        let npx = candidate(json!({ "npx": { "package": "mine@1.2", "args": ["acp"], "env": { "A": "1" } } })).unwrap();
        assert_eq!(npx.line(), "npx --yes mine@1.2 acp");
        assert_eq!((npx.title.as_str(), npx.env["A"].as_str()), ("Mine 1.2", "1"));
        assert_eq!(candidate(json!({ "uvx": { "package": "mine@1.2" } })).unwrap().line(), "uvx mine@1.2");
        let archive = json!({ "archive": "https://files.example/mine.tar.gz", "cmd": "./bin/mine", "args": ["acp"] });
        let binary = candidate(json!({ "binary": { "linux-x86_64": archive } })).unwrap();
        assert_eq!(binary.line(), "mine acp");
        assert!(binary.install.contains("https://files.example/mine.tar.gz"), "{}", binary.install);
        let other = candidate(json!({ "binary": { "windows-x86_64": archive } }));
        assert!(other.unwrap_err().to_string().contains("windows-x86_64"));
        assert!(read("{}", "linux-x86_64").is_err());
    }
}
