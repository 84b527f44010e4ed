//! `ctl allow` and `ctl deny`: answers a permission question that a session waits with.

use anyhow::{Context, bail};
use domain::Choice;
use domain::card::OpenQuestion;
use serde_json::json;
use wire::method;

use super::{Visit, table};
use crate::cli::Answer;
use crate::commands::which;

/// `choices` are the answer for once and the one for good.
pub(super) async fn run(visit: &mut Visit, args: &Answer, choices: [Choice; 2]) -> anyhow::Result<()> {
    let session = visit.find(&args.which.id).await?;
    let open = which::in_memory(&mut visit.client).await?.into_iter().find(|card| card.id.as_str() == session);
    let questions = open.map(|card| card.questions).unwrap_or_default();
    let asked = choose(&questions, args.question.as_deref())?;
    let [once, always] = choices;
    let choice = if args.always {
        asked.always.as_ref().context("this question can be answered for once only; leave --always out")?;
        always
    } else {
        once
    };
    let answer = json!({ "sessionId": session, "questionId": asked.id, "optionId": choice.id() });
    let done = if choice.allows() { "allowed" } else { "denied" };
    let done = format!("{done}: {}; session", table::plain(&asked.title));
    visit.steer(method::ANSWER, answer, &done).await
}

fn choose<'a>(questions: &'a [OpenQuestion], given: Option<&str>) -> anyhow::Result<&'a OpenQuestion> {
    let fits = |asked: &&OpenQuestion| given.is_none_or(|given| which::fits(asked.id.as_str(), given));
    let mut found = questions.iter().filter(fits);
    match (found.next(), found.next(), given) {
        (Some(asked), None, _) => Ok(asked),
        (None, _, None) => bail!("the session asks nothing"),
        (None, _, Some(given)) => bail!("the session has no open question `{given}`"),
        (Some(_), Some(_), _) => {
            let list = questions.iter().map(|asked| format!("\n  {}  {}", asked.id, table::plain(&asked.title)));
            bail!("several questions are open; name one{}", list.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: &str) -> OpenQuestion {
        OpenQuestion { id: id.into(), call: "call".into(), title: format!("do {id}"), always: None }
    }

    #[test]
    fn one_question_needs_no_name_and_several_do() {
        let two = [asked("a-1"), asked("b-2")];
        assert_eq!(choose(&two[..1], None).unwrap().id.as_str(), "a-1");
        assert_eq!(choose(&two, Some("2")).unwrap().id.as_str(), "b-2");
        assert!(choose(&two, None).unwrap_err().to_string().ends_with("name one\n  a-1  do a-1\n  b-2  do b-2"));
        assert!(choose(&two, Some("c")).is_err() && choose(&[], None).is_err());
    }
}
