//! The slash commands of a conversation that this client carries out itself. All others are sent to
//! the daemon as prompts.

mod changes;

use std::path::Path;

use domain::Millis;
use domain::card::SessionDetails;
use domain::similar_names;
use serde_json::{Value, json};
use signal_hook_tokio::Signals;
use terminal::age;
use terminal::picker::{Picker, PickerItem};
use terminal::table::one_line;
use wire::method;
use wire::rpc::RpcError;

use super::opening::{self, SessionChoice};
use super::output::Output;
use super::{Conversation, picking};
use crate::client::{Client, Refused};
use crate::commands::{history_search, session_lookup};

/// The names of these commands, for `/help` and for completion.
pub(super) const LOCAL: [&str; 10] =
    ["model", "mode", "approval", "new", "resume", "search", "diff", "cost", "thoughts", "exit"];

/// How many results `/search` shows.
const FOUND: usize = 12;

impl Conversation {
    /// Carries out a line if it is a command of this client. Returns false if it is not.
    pub(super) async fn run_local(&mut self, line: &str) -> anyhow::Result<bool> {
        let Some(line) = line.trim().strip_prefix('/') else { return Ok(false) };
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let done = match name {
            "model" | "mode" | "approval" => self.choose_option(name, rest).await,
            "new" => self.switch_to(&SessionChoice::New).await,
            "resume" => self.resume(rest).await,
            "search" => self.search(rest).await,
            "diff" => self.show_changes().await,
            "cost" => self.show_cost().await,
            "thoughts" => self.output.thoughts(rest),
            _ => return Ok(false),
        };
        match done {
            Err(error) if error.is::<Refused>() || error.is::<session_lookup::NoSession>() => {
                self.output.trouble(&format!("{error:#}"))?;
            }
            done => done?,
        }
        Ok(true)
    }

    /// Describes the commands of this client, below those of the daemon.
    pub(super) fn help(&mut self) -> anyhow::Result<()> {
        let names: Vec<String> = LOCAL.iter().map(|name| format!("/{name}")).collect();
        self.output.remark(&format!("In this terminal also: {}, and @path to attach a file.", names.join(", ")))?;
        self.output.remark("What you type while the agent works joins its turn when you press Enter.")
    }

    /// Sets an option of the session to a value, which is chosen from a list if none is given.
    async fn choose_option(&mut self, option: &str, value: &str) -> anyhow::Result<()> {
        let choices = choices(&self.options, option);
        let value = if value.is_empty() {
            let current = current(&self.options, option);
            let item = |(id, name): &(String, String)| {
                let mark = if *id == current { "current" } else { "" };
                let name = if name == id { String::new() } else { name.clone() };
                PickerItem { label: id.clone(), detail: [name.as_str(), mark].join(" ").trim().to_owned() }
            };
            let picker = Picker::new(&format!("Choose the {option}"), choices.iter().map(item).collect());
            match picking::pick(&mut self.output, &mut self.signals, picker).await? {
                Some(at) => choices[at].0.clone(),
                None => return Ok(()),
            }
        } else {
            value.to_owned()
        };
        let params = json!({ "sessionId": self.session, "configId": option, "value": value });
        match self.client.call::<Value>(method::SESSION_SET_CONFIG_OPTION, params).await {
            Ok(answer) => {
                self.learn_options(answer["configOptions"].clone());
                self.output.remark(&format!("the {option} is {} now", one_line(&value)))
            }
            Err(error) if is_unknown(&error) => {
                let near = similar_names::did_you_mean(&value, choices.iter().map(|(id, _)| id.as_str()));
                let near = near.unwrap_or_else(|| format!("/{option} shows a list"));
                self.output.trouble(&format!("there is no {option} `{}`; {near}", one_line(&value)))
            }
            Err(error) => Err(error),
        }
    }

    /// Stores the options of the session, for lists and for the status line.
    pub(super) fn learn_options(&mut self, options: Value) {
        if options.is_array() {
            self.output.learn_options(&options);
            self.options = options;
        }
    }

    /// Continues the conversation in another session.
    async fn switch_to(&mut self, wanted: &SessionChoice) -> anyhow::Result<()> {
        let mut opened = opening::open(&mut self.client, wanted).await?;
        opened.status.home.clone_from(&self.home);
        self.session.clone_from(&opened.session);
        self.output.replace_status(&opened.status);
        self.options = opened.options.clone();
        self.welcome(&opened).await
    }

    /// Continues a session by its id, or lets the user choose one from a list.
    async fn resume(&mut self, wanted: &str) -> anyhow::Result<()> {
        if !wanted.is_empty()
            && let Ok(session) = session_lookup::find(&mut self.client, wanted).await
        {
            return self.switch_to(&SessionChoice::Named(session)).await;
        }
        let Self { client, output, signals, home, .. } = self;
        match pick_session(client, output, signals, wanted, home).await? {
            Some(session) => self.switch_to(&SessionChoice::Named(session)).await,
            None => Ok(()),
        }
    }

    /// Stores the options in an update, if it has any.
    pub(super) fn note_options(&mut self, update: &Value) {
        if update["sessionUpdate"] == "config_option_update" {
            self.learn_options(update["configOptions"].clone());
        }
    }

    async fn search(&mut self, wanted: &str) -> anyhow::Result<()> {
        if wanted.is_empty() {
            return self.output.trouble("what to search for? /search TEXT");
        }
        let hits = history_search::search(&mut self.client, wanted, FOUND).await?;
        for hit in &hits {
            let id = &hit.session_id;
            let short = id.get(id.len().saturating_sub(12)..).unwrap_or(id);
            let age = Millis::from_rfc3339(&hit.updated_at).map(age::age).unwrap_or_default();
            self.output.remark(&format!("{short}  {age:>4}  {}", one_line(&hit.title)))?;
            self.output.remark(&format!("      {}: {}", hit.who, one_line(&hit.text)))?;
        }
        match hits.is_empty() {
            true => self.output.remark("nothing found"),
            false => self.output.remark("/resume ID continues a session"),
        }
    }

    async fn show_cost(&mut self) -> anyhow::Result<()> {
        let details: SessionDetails = self.client.call(method::SESSION, json!({ "sessionId": self.session })).await?;
        let usage = &details.card.usage;
        let mut text = format!("{} tokens in, {} out", usage.input, usage.output);
        if usage.cached_read > 0 {
            text.push_str(&format!(", {} of them read from a cache", usage.cached_read));
        }
        match &details.card.cost {
            Some(cost) => text.push_str(&format!("; {:.4} {}", cost.amount, cost.currency)),
            None if usage.total() == 0 => {}
            None => text.push_str("; the price of the model is not known"),
        }
        self.output.remark(&text)
    }
}

/// Lets the user choose a stored session, and returns its id.
pub(super) async fn pick_session(
    client: &mut Client,
    output: &mut Output,
    signals: &mut Signals,
    wanted: &str,
    home: &Path,
) -> anyhow::Result<Option<String>> {
    let mut sessions = session_lookup::stored(client, None).await?;
    // A session without a prompt has no title, and nothing to continue.
    sessions.retain(|session| session["title"].is_string());
    if sessions.is_empty() {
        return Err(session_lookup::no_session("there is no session to resume"));
    }
    let items = sessions.iter().map(|session| item(session, home)).collect();
    let picker = Picker::new("Resume", items).searching(wanted);
    let chosen = picking::pick(output, signals, picker).await?;
    Ok(chosen.map(|at| sessions[at]["sessionId"].as_str().unwrap_or_default().to_owned()))
}

fn is_unknown(error: &anyhow::Error) -> bool {
    let is_it = |refused: &Refused| refused.error.code == RpcError::INVALID_PARAMS;
    error.downcast_ref().is_some_and(is_it)
}

fn option<'a>(options: &'a Value, id: &str) -> Option<&'a Value> {
    options.as_array()?.iter().find(|option| option["id"] == id)
}

fn current(options: &Value, id: &str) -> String {
    let value = option(options, id).and_then(|option| option["currentValue"].as_str());
    value.unwrap_or_default().to_owned()
}

/// Returns the values of an option and their names. The daemon may send them in groups.
pub(super) fn choices(options: &Value, id: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let listed = option(options, id).and_then(|option| option["options"].as_array());
    let one = |choice: &Value| (text(&choice["value"]), text(&choice["name"]));
    let mut found = Vec::new();
    for choice in listed.into_iter().flatten() {
        match choice["options"].as_array() {
            Some(group) => found.extend(group.iter().map(one)),
            None => found.push(one(choice)),
        }
    }
    found
}

/// Formats a stored session as an entry of a list: its title, folder and age.
pub(super) fn item(session: &Value, home: &Path) -> PickerItem {
    let text = |key: &str| session[key].as_str().unwrap_or_default();
    let title = if text("title").is_empty() { "(no title)" } else { text("title") };
    let folder = match Path::new(text("cwd")).strip_prefix(home) {
        Ok(below) => Path::new("~").join(below).display().to_string(),
        Err(_) => text("cwd").to_owned(),
    };
    let age = Millis::from_rfc3339(text("updatedAt")).map(age::age).unwrap_or_default();
    PickerItem { label: title.to_owned(), detail: format!("{age:>4}  {folder}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_an_option_are_read_in_groups_or_without() {
        let one = |id: &str| json!({ "value": id, "name": format!("{id}!") });
        let options = json!([
            { "id": "mode", "currentValue": "full", "options": [one("full"), one("safe")] },
            { "id": "model", "currentValue": "p/m", "options": [{ "group": "p", "options": [one("p/m")] }] },
        ]);
        let ids = |id: &str| choices(&options, id).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(
            (ids("mode"), ids("model"), ids("none")),
            (vec!["full".into(), "safe".into()], vec!["p/m".into()], vec![])
        );
        assert_eq!(current(&options, "model"), "p/m");
    }
}
