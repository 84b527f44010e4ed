//! `acpd models`: lists the available models and what is known about them, tests whether they
//! answer, sets the default (`default_model`), and overrides facts (`override_facts`).
//!
//! It queries the providers itself, with the same settings as a session started here; no daemon is
//! needed. It prints no key.

#![allow(clippy::print_stdout, reason = "the list and the results are printed")]

mod config_file;
mod default_model;
mod override_facts;

use std::io;
use std::time::{Duration, Instant};

use anyhow::bail;
use domain::conversation::Message;
use domain::model::{Catalogue, Delta, Model, ModelRequest, Price};
use domain::similar_names;
use domain::{Content, Environment, MessageId, ModelId, ThoughtLevel, Usage};
use futures_util::StreamExt;
use serde_json::json;
use terminal::style::{terminal_width, visible_text};
use terminal::table::fitted;

use crate::assemble::accounts::{self, CatalogueVersion, OfferedModel, Providers};
use crate::cli::{ModelsAction, ModelsArgs};
use crate::commands::Ending;
use crate::commands::json_output::print_indented;
use crate::config::{Layers, ResolvedNetwork};
use crate::launch;
use crate::paths::Paths;

/// How long the providers may take to list their models.
const LISTED_WITHIN: Duration = Duration::from_secs(10);

/// How long a model may take to answer the test prompt.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

pub fn run(places: &Paths, args: &ModelsArgs) -> anyhow::Result<Ending> {
    let list_all = ModelsAction::List { filter: None, json: false };
    let action = args.action.as_ref().unwrap_or(&list_all);
    let mut config = Layers::read(&places.config, launch::environment(), &[])?.check()?;
    let environment: Environment = launch::environment().collect();
    let configured = config.models.default.clone();
    if matches!(action, ModelsAction::Default { .. }) {
        // A default that does not exist must not prevent the user from setting another.
        config.models.default = None;
    }
    let providers = accounts::providers(places, &config)?;
    ResolvedNetwork::of(&config.network, &environment, &Environment::default()).install();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ending = runtime.block_on(async {
        let ask = async || {
            let offered = providers.offered(&environment, LISTED_WITHIN).await;
            AvailableModels { providers: &providers, environment: &environment, offered }
        };
        match action {
            ModelsAction::List { filter, json } => list(&ask().await, filter.as_deref(), *json),
            ModelsAction::Test { model } => test(&ask().await, model.as_deref()).await,
            ModelsAction::Default { reset: true, .. } => default_model::set(places, None).await,
            ModelsAction::Default { model, .. } => {
                default_model::run(places, &ask().await, model.as_deref(), configured.as_deref()).await
            }
            ModelsAction::Override { model, facts, new, reset } => {
                if !reset && !new && !override_facts::is_known_name(&providers, model) {
                    override_facts::expect_listed(&ask().await, model)?;
                }
                override_facts::run(places, model, facts).await
            }
        }
    });
    // A provider that hangs is abandoned.
    runtime.shutdown_background();
    ending
}

/// The providers, and the models that they offer in this environment.
struct AvailableModels<'a> {
    providers: &'a Providers,
    environment: &'a Environment,
    offered: Vec<OfferedModel>,
}

impl AvailableModels<'_> {
    /// Whether a session may choose this model.
    fn has(&self, id: &ModelId) -> bool {
        self.providers.offers(id, self.environment)
    }

    /// Suggests the names that the user may have meant, as a question.
    fn near(&self, name: &str) -> Option<String> {
        similar_names::did_you_mean(name, self.offered.iter().map(|offered| offered.info.id.as_str()))
    }

    /// Returns the error for a model that does not exist, with similar names.
    fn unknown(&self, name: &str) -> anyhow::Error {
        let provider = name.split('/').next().unwrap_or_default();
        let unavailable = self.providers.unavailable(self.environment);
        let near = self.near(name);
        match unavailable.iter().find(|(other, _)| other == provider) {
            Some((provider, why)) => anyhow::anyhow!("the model `{name}` cannot be used; {provider}: {why}"),
            None => {
                let hint = near.unwrap_or_else(|| "`acpd models list` lists the models".to_owned());
                anyhow::anyhow!("there is no model `{name}`; {hint}")
            }
        }
    }
}

fn list(known: &AvailableModels<'_>, filter: Option<&str>, json: bool) -> anyhow::Result<Ending> {
    let filter = filter.unwrap_or_default();
    let contains = |text: &str| text.to_lowercase().contains(&filter.to_lowercase());
    let fits = |offered: &&OfferedModel| contains(offered.info.id.as_str()) || contains(&offered.info.name);
    let shown: Vec<&OfferedModel> = known.offered.iter().filter(fits).collect();
    let mut unavailable = known.providers.unavailable(known.environment);
    unavailable.retain(|(provider, _)| contains(provider));
    let default = known.providers.default_model(known.environment);
    if json {
        let models: Vec<_> = shown.iter().map(|offered| as_json(offered, &default)).collect();
        let unavailable: Vec<_> =
            unavailable.iter().map(|(provider, why)| json!({ "provider": provider, "why": why })).collect();
        let found = json!({ "table": table(), "models": models, "unavailable": unavailable });
        print_indented(&found);
        return Ok(Ending::Done);
    }
    let (stdout, stderr) = (terminal_width(io::stdout()), terminal_width(io::stderr()));
    for offered in &shown {
        println!("{}", fitted(&line(offered, &default), "    ", stdout));
    }
    if !shown.is_empty() {
        let CatalogueVersion { version, date } = CatalogueVersion::get();
        let note =
            format!("Values that no provider reports come from the bundled table, version {version}, of {date}.");
        eprintln!("{}", fitted(&note, "", stderr));
    }
    let mut remarks = known.providers.remarks(&default, known.environment);
    remarks.retain(|remark| !unavailable.iter().any(|(provider, why)| *remark == format!("{provider}: {why}")));
    for remark in remarks {
        eprintln!("{}", fitted(&remark, "", stderr));
    }
    if !unavailable.is_empty() {
        eprintln!("not available:");
        unavailable
            .iter()
            .for_each(|(provider, why)| eprintln!("{}", fitted(&format!("  {provider}: {why}"), "    ", stderr)));
    }
    match (shown.is_empty(), known.near(filter)) {
        (false, _) => Ok(Ending::Done),
        (true, _) if known.offered.is_empty() => {
            bail!("no model can be used; `acpd login` adds a provider, and `acpd doctor` shows which providers answer")
        }
        (true, Some(near)) => bail!("no model matches; {near}"),
        (true, None) => bail!("no model matches; `acpd models list` lists all"),
    }
}

fn table() -> serde_json::Value {
    let table = CatalogueVersion::get();
    let sources: serde_json::Map<String, serde_json::Value> =
        table.sources().map(|(maker, source)| (maker.to_owned(), json!(source))).collect();
    json!({ "version": table.version, "date": table.date, "sources": sources })
}

fn as_json(offered: &OfferedModel, default: &ModelId) -> serde_json::Value {
    let OfferedModel { info, output, guessed, documents, dialect, configured } = offered;
    let price = info.price.as_ref().map(|price| {
        json!({ "currency": price.currency, "input": price.input, "output": price.output,
            "cached_read": price.cached_read, "cached_write": price.cached_write })
    });
    json!({ "id": info.id, "name": info.name, "window": info.window, "output": output, "images": info.images,
        "audio": info.audio, "documents": documents, "thinks": info.thinks, "dialect": dialect, "price": price,
        "guessed": guessed, "configured": configured, "default": info.id == *default })
}

fn line(offered: &OfferedModel, default: &ModelId) -> String {
    let OfferedModel { info, guessed, documents, configured, .. } = offered;
    let mut facts = vec![format!("{} tokens", thousands(info.window))];
    facts.extend(info.images.then(|| "images".to_owned()));
    facts.extend(documents.then(|| "PDFs".to_owned()));
    facts.extend(info.thinks.then(|| "thinks".to_owned()));
    facts.extend(info.price.as_ref().map(priced));
    facts.extend(guessed.then(|| "guessed from an unknown name".to_owned()));
    facts.extend((!configured.is_empty()).then(|| format!("configured: {}", configured.join(" "))));
    facts.extend((info.id == *default).then(|| "the default".to_owned()));
    format!("{:<40} {}", info.id.as_str(), facts.join(", "))
}

fn priced(price: &Price) -> String {
    format!("{} in, {} out {} per million", price.input, price.output, price.currency)
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

/// Sends a test prompt to one model, or to one model of each provider.
async fn test(known: &AvailableModels<'_>, wanted: Option<&str>) -> anyhow::Result<Ending> {
    let AvailableModels { providers, environment, .. } = known;
    let chosen: Vec<ModelId> = match wanted {
        Some(id) => vec![ModelId::from(id)],
        None => providers.preferred_models(environment),
    };
    let unusable = if wanted.is_some() { Vec::new() } else { providers.unusable(environment) };
    if chosen.is_empty() && unusable.is_empty() {
        bail!("no provider can be used; `acpd login` adds one, and `acpd doctor` shows why the others cannot be used");
    }
    let width = terminal_width(io::stdout());
    for why in &unusable {
        println!("{}", fitted(&format!("fail  {why}"), "      ", width));
    }
    let mut failed = unusable.len();
    for id in chosen {
        let Some(model) = providers.find(&id) else { return Err(known.unknown(id.as_str())) };
        // A provider may answer by a name that it does not list.
        let near = known.near(id.as_str()).filter(|_| !known.has(&id));
        let near = near.map(|near| format!("; no list has this name, {near}")).unwrap_or_default();
        let result = tokio::time::timeout(ANSWERED_WITHIN, hello(&*model, environment)).await;
        match result.unwrap_or_else(|_| Err(format!("no answer within {} s", ANSWERED_WITHIN.as_secs()))) {
            Ok(hello) => {
                let described = hello.describe(model.info().price.as_ref());
                println!("{}", fitted(&format!("ok    {id}: {described}{near}"), "      ", width));
            }
            Err(why) => {
                failed += 1;
                println!("{}", fitted(&format!("fail  {id}: {why}{near}"), "      ", width));
            }
        }
    }
    match failed {
        0 => Ok(Ending::Done),
        1 => bail!("one test failed"),
        _ => bail!("{failed} tests failed"),
    }
}

/// The answer of a model to the test prompt.
struct Hello {
    text: String,
    first: Duration,
    all: Duration,
    usage: Usage,
}

impl Hello {
    fn describe(&self, price: Option<&Price>) -> String {
        let said: String = self.text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect();
        let (first, all) = (self.first.as_secs_f64(), self.all.as_secs_f64());
        let Usage { input, output, .. } = self.usage;
        let cost = match price {
            Some(price) => format!("{:.6} {}", price.of(&self.usage), price.currency),
            None => "price not known".to_owned(),
        };
        format!("\"{said}\" after {first:.1} s, {all:.1} s in all, {input} tokens in, {output} out, {cost}")
    }
}

async fn hello(model: &dyn Model, environment: &Environment) -> Result<Hello, String> {
    let content = vec![Content::text("Say hello in one word.")];
    let request = ModelRequest {
        system: String::new(),
        messages: vec![Message::User { id: MessageId::new(), content }.into()],
        tools: Vec::new(),
        thought: ThoughtLevel::Off,
        environment: environment.clone().into(),
        cache_key: String::new(),
        tool_use: domain::model::ToolUse::Allowed,
    };
    let begun = Instant::now();
    let (mut text, mut first, mut usage) = (String::new(), None, Usage::default());
    let mut answer = model.respond(request);
    while let Some(delta) = answer.next().await {
        match delta.map_err(|error| describe_error(&error))? {
            Delta::Text(more) => {
                first.get_or_insert_with(|| begun.elapsed());
                text.push_str(&more);
            }
            Delta::Usage(more) => usage += more,
            Delta::Abandoned => text.clear(),
            Delta::Notice(notice) => eprintln!("{}", visible_text(&notice)),
            Delta::Thought(_)
            | Delta::Seal(_)
            | Delta::CallBegun { .. }
            | Delta::Call { .. }
            | Delta::CutCall { .. }
            | Delta::DocumentsAsText { .. }
            | Delta::Stopped(_) => {}
        }
    }
    if text.trim().is_empty() {
        return Err("its answer was empty".to_owned());
    }
    let all = begun.elapsed();
    Ok(Hello { text, first: first.unwrap_or(all), all, usage })
}

fn describe_error(error: &domain::model::ModelError) -> String {
    match error.data["detail"].as_str() {
        Some(detail) => format!("{}: {detail}", error.message),
        None => error.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_groups() {
        assert_eq!(thousands(1_048_576), "1,048,576");
        assert_eq!(thousands(512), "512");
    }
}
