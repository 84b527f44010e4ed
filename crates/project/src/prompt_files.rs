//! Files in prompts that a rule keeps from the model: what an editor has put into a prompt becomes a link, and what a link
//! leads to is fetched from no server. The person is told.

use std::path::{Path, PathBuf};

use domain::{Content, Payload, Verdict, link};
use policy::Rules;

/// A prompt without the files that a rule denies or asks about.
pub struct FilteredPrompt {
    pub prompt: Vec<Content>,
    /// The same without links to those files.
    pub links: Vec<Content>,
    pub notices: Vec<String>,
}

pub fn has_files(prompt: &[Content]) -> bool {
    prompt.iter().any(|content| file(&content.payload).is_some())
}

/// Asks the disk for the files' real names, which may block.
pub fn filter_prompt(prompt: Vec<Content>, rules: &Rules) -> FilteredPrompt {
    let mut withheld = FilteredPrompt { prompt: Vec::new(), links: Vec::new(), notices: Vec::new() };
    for content in prompt {
        let Some((path, verdict)) = file(&content.payload).and_then(|path| {
            let verdict = reading_verdict(rules, &path)?;
            Some((path, verdict))
        }) else {
            withheld.links.push(content.clone());
            withheld.prompt.push(content);
            continue;
        };
        if let Some(link) = as_link(&content.payload, &path) {
            withheld.notices.push(notice(&path, verdict));
            withheld.prompt.push(Content { payload: link, extras: content.extras });
        } else {
            withheld.prompt.push(content);
        }
    }
    withheld
}

/// What a rule says of reading a file, by its name and by the one without symlinks.
pub(crate) fn reading_verdict(rules: &Rules, path: &Path) -> Option<Verdict> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    rules.reading_verdict(&[path, &real])
}

/// Why a file is not in a request, as a sentence for the person.
pub(crate) fn notice(path: &Path, verdict: Verdict) -> String {
    let rule = match verdict {
        Verdict::Deny => "denies reading it",
        Verdict::Ask | Verdict::Run => "asks before it is read",
    };
    format!("{} was left out of what the model is told: a rule {rule}.", path.display())
}

fn file(payload: &Payload) -> Option<PathBuf> {
    match payload {
        Payload::Link { uri, .. } | Payload::TextResource { uri, .. } | Payload::BlobResource { uri, .. } => {
            link::file_path(uri)
        }
        Payload::Image { uri, .. } => uri.as_deref().and_then(link::file_path),
        Payload::Text { .. } | Payload::Audio { .. } => None,
    }
}

/// None if it is a link already.
fn as_link(payload: &Payload, path: &Path) -> Option<Payload> {
    let (uri, mime) = match payload {
        Payload::TextResource { uri, mime, .. } | Payload::BlobResource { uri, mime, .. } => {
            (uri.clone(), mime.clone())
        }
        Payload::Image { uri: Some(uri), mime, .. } => (uri.clone(), Some(mime.clone())),
        Payload::Image { uri: None, .. } | Payload::Link { .. } | Payload::Text { .. } | Payload::Audio { .. } => {
            return None;
        }
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Some(Payload::Link { uri, name, mime, title: None, description: None, size: None, path: None })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_rule_denies_or_asks_about_becomes_a_link_and_is_fetched_by_nobody() {
        let rules: Rules = serde_json::from_value(json!({ "deny": ["read(.env)"], "ask": ["read(*.key)"] })).unwrap();
        let resource = |uri: &str| Payload::TextResource { uri: uri.to_owned(), mime: None, text: "secret".to_owned() };
        let link = Payload::Link {
            uri: "file:///nowhere/.env".to_owned(),
            name: "x".to_owned(),
            mime: None,
            title: None,
            description: None,
            size: None,
            path: None,
        };
        let image = Payload::Image {
            data: "secret".to_owned(),
            mime: "image/png".to_owned(),
            uri: Some("file:///nowhere/a.key".to_owned()),
        };
        let harmless = resource("file:///nowhere/a.rs");
        let prompt = [resource("file:///nowhere/.env"), image, link, harmless.clone()];
        let withheld = filter_prompt(prompt.into_iter().map(Content::from).collect(), &rules);
        let kept = serde_json::to_string(&withheld.prompt[..3]).unwrap();
        assert!(!kept.contains("secret"), "{kept}");
        assert_eq!(withheld.prompt.len(), 4);
        assert_eq!(withheld.links, [Content::from(harmless)]);
        assert_eq!(
            withheld.notices,
            [
                "/nowhere/.env was left out of what the model is told: a rule denies reading it.",
                "/nowhere/a.key was left out of what the model is told: a rule asks before it is read."
            ]
        );
    }
}
