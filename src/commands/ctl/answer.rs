//! `ctl allow` and `ctl deny`: answer a permission question that a session waits for, after
//! printing it.

#![allow(clippy::print_stdout, reason = "what is answered is printed")]

use anyhow::{Context, bail};
use domain::card::{OpenQuestion, SessionDetails};
use domain::{Choice, SessionId};
use serde_json::{Value, json};
use terminal::consent::Consent;
use terminal::table::{self, Viewport};
use wire::method;

use super::DaemonClient;
use crate::cli::Answer;
use crate::commands::session_lookup;

/// Answers a question. `choices` are the one-time answer and the permanent one.
pub(super) async fn run(daemon: &mut DaemonClient, args: &Answer, choices: [Choice; 2]) -> anyhow::Result<()> {
    let (session, asked) = find(daemon, args).await?;
    let [once, always] = choices;
    let choice = if args.always {
        asked.always.as_ref().context("this question can be answered for once only; leave --always out")?;
        always
    } else {
        once
    };
    let consent = Consent::of(&asked);
    if choice.allows() && consent.cut() > 0 && !args.unseen {
        bail!(
            "it is too long to be shown whole, {} bytes are missing; `acpd ctl export {session}` has all of it, and \
             --unseen allows it all the same",
            consent.cut()
        );
    }
    let viewport = Viewport::stdout();
    if !daemon.json {
        println!("{}", consent.title());
        let rest = format!("acpd ctl export {session}");
        consent.lines(viewport.colors).into_iter().chain(consent.missing(&rest)).for_each(|line| println!("{line}"));
    }
    let answer = json!({ "sessionId": session, "questionId": asked.id, "optionId": choice.id() });
    let _: Value = daemon.client.call(method::ANSWER, &answer).await?;
    let report = json!({ "sessionId": session, "optionId": choice.id(), "question": asked });
    let done = if choice.allows() { "allowed" } else { "denied" };
    daemon.show(&report, || format!("{done}: {}; session {session}", consent.title()));
    Ok(())
}

/// Finds the question to answer, with its full contents.
async fn find(daemon: &mut DaemonClient, args: &Answer) -> anyhow::Result<(SessionId, OpenQuestion)> {
    daemon.introduce().await?;
    let session = match &args.id {
        Some(id) => Some(daemon.find(id).await?),
        None => None,
    };
    let sessions = session_lookup::in_memory(&mut daemon.client).await?.into_iter();
    let wanted = sessions.filter(|card| session.as_deref().is_none_or(|wanted| card.id.as_str() == wanted));
    let open = wanted.flat_map(|card| card.questions.into_iter().map(move |asked| (card.id.clone(), asked)));
    let (session, asked) = choose(open.collect(), args.question.as_deref(), session.is_some())?;
    // The list cuts questions at a lower limit than the details of one session do.
    let details: SessionDetails = daemon.client.call(method::SESSION, json!({ "sessionId": session })).await?;
    let whole = details.card.questions.into_iter().find(|whole| whole.id == asked.id);
    Ok((session, whole.context("the question was answered meanwhile")?))
}

type Open = (SessionId, OpenQuestion);

/// Chooses the question. `named` means that the questions are those of one session that was named.
fn choose(questions: Vec<Open>, given: Option<&str>, named: bool) -> anyhow::Result<Open> {
    let fits = |(_, asked): &&Open| given.is_none_or(|given| session_lookup::fits(asked.id.as_str(), given));
    let mut found = questions.iter().filter(fits);
    match (found.next(), found.next(), given) {
        (Some(asked), None, _) => Ok(asked.clone()),
        (None, _, None) if named => bail!("the session has no open question"),
        (None, _, None) => bail!("no session asks anything"),
        (None, _, Some(given)) => bail!("the session has no open question `{given}`"),
        (Some(_), Some(_), _) => {
            let list = questions
                .iter()
                .map(|(session, asked)| format!("\n  {session} {}  {}", asked.id, table::one_line(&asked.title)));
            bail!("several questions are open; name one by its session and its id{}", list.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(session: &str, id: &str) -> Open {
        let question = OpenQuestion {
            id: id.into(),
            call: "call".into(),
            title: format!("do {id}"),
            always: None,
            proposal: None,
        };
        (session.into(), question)
    }

    #[test]
    fn one_question_needs_no_name_and_several_do() {
        let two = [asked("s", "a-1"), asked("t", "b-2")];
        let chosen = |questions: &[Open], given| choose(questions.to_vec(), given, false).map(|(_, asked)| asked.id);
        assert_eq!(chosen(&two[..1], None).unwrap().as_str(), "a-1");
        assert_eq!(chosen(&two, Some("2")).unwrap().as_str(), "b-2");
        let several = chosen(&two, None).unwrap_err().to_string();
        assert!(several.ends_with("by its session and its id\n  s a-1  do a-1\n  t b-2  do b-2"), "{several}");
        assert!(chosen(&two, Some("c")).is_err());
        assert_eq!(chosen(&[], None).unwrap_err().to_string(), "no session asks anything");
        assert_eq!(choose(Vec::new(), None, true).unwrap_err().to_string(), "the session has no open question");
    }
}
