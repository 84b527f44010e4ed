//! `ctl mcp`: lists the MCP servers of a session, or of all sessions in memory.

use domain::mcp::{ServerCard, SessionServers};
use serde_json::{Value, json};
use terminal::table::one_line;
use wire::extension::ServersResult;
use wire::method;

use super::DaemonClient;

pub(super) async fn run(daemon: &mut DaemonClient, id: Option<&str>) -> anyhow::Result<()> {
    let params = match id {
        Some(id) => json!({ "sessionId": daemon.find(id).await? }),
        None => Value::Object(serde_json::Map::new()),
    };
    let found: ServersResult = daemon.client.call(method::MCP, params).await?;
    daemon.show(&found, || match found.sessions.as_slice() {
        [] => "no session in memory has MCP servers".to_owned(),
        sessions => sessions.iter().map(describe).collect::<Vec<_>>().join("\n\n"),
    });
    Ok(())
}

fn describe(SessionServers { session, servers }: &SessionServers) -> String {
    let lines = servers.iter().map(line).collect::<Vec<_>>().join("\n");
    format!("{session}\n{}", if servers.is_empty() { "  no MCP servers" } else { &lines })
}

fn line(server: &ServerCard) -> String {
    let ServerCard { name, transport, source, state, login, title, tools, prompts, log } = server;
    let title = title.as_ref().map(|title| format!(" ({})", one_line(title))).unwrap_or_default();
    let mut text = format!("  {}{title}  {transport}, from the {}\n", one_line(name), source.name());
    text.push_str(&format!("    {}\n", one_line(&state.describe())));
    if let Some(command) = login {
        text.push_str(&format!("    login    some calls need one: run `{}`\n", one_line(command)));
    }
    if !tools.is_empty() {
        text.push_str(&format!("    tools    {}\n", tools.join(" ")));
    }
    if !prompts.is_empty() {
        let commands: Vec<String> = prompts.iter().map(|name| format!("/{}", one_line(name))).collect();
        text.push_str(&format!("    prompts  {}\n", commands.join(" ")));
    }
    for line in log {
        text.push_str(&format!("    log      {}\n", one_line(line)));
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use domain::mcp::{McpServerSource, ServerState};
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_server_is_shown_with_its_offers_and_its_last_log_lines() {
        let good = ServerCard {
            name: "docs".to_owned(),
            transport: "http".to_owned(),
            source: McpServerSource::User,
            state: ServerState::Ready,
            login: Some("acpd login --mcp docs --scope write".to_owned()),
            title: Some("Docs 2.1".to_owned()),
            tools: vec!["mcp__docs__find".to_owned(), "mcp__docs__read".to_owned()],
            prompts: vec!["docs:explain".to_owned()],
            log: Vec::new(),
        };
        let bad = ServerCard {
            name: "db".to_owned(),
            transport: "stdio".to_owned(),
            source: McpServerSource::Project,
            state: ServerState::Failed { reason: "it ended with exit status 1".to_owned(), retry_in: 4 },
            login: None,
            title: None,
            tools: Vec::new(),
            prompts: Vec::new(),
            log: vec!["no such \u{1b}[31mdatabase".to_owned()],
        };
        let shown = describe(&SessionServers { session: "s".into(), servers: vec![good, bad] });
        expect![[r#"
            s
              docs (Docs 2.1)  http, from the configuration
                ready
                login    some calls need one: run `acpd login --mcp docs --scope write`
                tools    mcp__docs__find mcp__docs__read
                prompts  /docs:explain
              db  stdio, from the project
                failed: it ended with exit status 1; next try in 4 s
                log      no such \u{1b}[31mdatabase"#]]
        .assert_eq(&shown);
    }
}
