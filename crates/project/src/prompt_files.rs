//! Removes files from prompts that a rule hides from the model. A file that the editor embedded
//! becomes a link, no MCP server is asked for it, and the user gets a notice.

use std::path::{Path, PathBuf};

use domain::{Content, Payload, Verdict, resource_link};
use policy::Rules;

/// A prompt without the files that a rule denies or asks about.
pub struct FilteredPrompt {
    pub prompt: Vec<Content>,
    /// The prompt without links to those files.
    pub links: Vec<Content>,
    pub notices: Vec<String>,
}

pub fn has_files(prompt: &[Content]) -> bool {
    prompt.iter().any(|content| file(&content.payload).is_some())
}

/// Filters a prompt. Resolves the paths of its files, which may block.
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
            withheld.prompt.push(Content { payload: link, metadata: content.metadata });
        } else {
            withheld.prompt.push(content);
        }
    }
    withheld
}

/// Returns the verdict about reading a file, by its name and by its path without symlinks.
pub fn reading_verdict(rules: &Rules, path: &Path) -> Option<Verdict> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    rules.reading_verdict(&[path, &real])
}

/// Returns a notice for the user about a file that is omitted from a request.
pub(crate) fn notice(path: &Path, verdict: Verdict) -> String {
    let rule = match verdict {
        Verdict::Deny => "denies reading it",
        Verdict::Ask | Verdict::Run => "asks before it is read",
    };
    format!("{} was not sent to the model: a rule {rule}.", path.display())
}

fn file(payload: &Payload) -> Option<PathBuf> {
    match payload {
        Payload::Link { uri, .. } | Payload::TextResource { uri, .. } | Payload::BlobResource { uri, .. } => {
            resource_link::file_path(uri)
        }
        Payload::Image { uri, .. } => uri.as_deref().and_then(resource_link::file_path),
        Payload::Text { .. } | Payload::Audio { .. } => None,
    }
}

/// Converts an embedded file to a link. Returns None if it is a link already.
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
    fn a_file_withheld_by_a_rule_becomes_a_link_and_is_not_fetched() {
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
                "/nowhere/.env was not sent to the model: a rule denies reading it.",
                "/nowhere/a.key was not sent to the model: a rule asks before it is read."
            ]
        );
    }
}
