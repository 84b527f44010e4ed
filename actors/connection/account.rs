//! `authenticate` and `logout`: checks the environment, or starts a login that the user finishes in
//! a browser.

use actix::{ActorFutureExt, Context, WrapFuture};
use domain::MessageId;
use domain::account::{AccountError, DeviceLogin};
use serde_json::{Value, json};
use wire::answer_data::{ENV_METHOD, GITHUB_METHOD};
use wire::{Id, RpcError, method, rpc};

use super::{Connection, OwnRequest};
use crate::mail::tell;
use crate::session;

impl Connection {
    pub(super) fn authenticate(&mut self, id: Id, chosen: &str, ctx: &mut Context<Self>) {
        match chosen {
            ENV_METHOD => self.check_environment(id, ctx),
            GITHUB_METHOD => self.log_in(id, ctx),
            other => {
                let why = format!("`{other}` is not a login method that acpd can carry out");
                self.answer(&id, Err::<Value, _>(RpcError::invalid_params("methodId", &why)), ctx);
            }
        }
    }

    fn check_environment(&mut self, id: Id, ctx: &mut Context<Self>) {
        let ports = self.runtime.ports();
        let authenticated = ports.accounts.is_authenticated(&self.whole_environment());
        let missing: Vec<String> = ports.accounts.variables().into_iter().map(|variable| variable.name).collect();
        let work = async move {
            if authenticated.await {
                return Ok(json!({}));
            }
            Err(RpcError::authentication_required(json!({
                "missing": missing,
                "advice": "set one of these variables in the environment that your editor is started from",
            })))
        };
        self.answer_later(id, work, ctx);
    }

    fn log_in(&mut self, id: Id, ctx: &mut Context<Self>) {
        let begin = self.runtime.ports().accounts.begin_login();
        let request = id.clone();
        let work = begin.into_actor(self).map(move |begun, this, ctx| match begun {
            Ok(login) => this.show_login(id, login, ctx),
            Err(why) => this.answer(&id, Err::<Value, _>(login_failed(&why)), ctx),
        });
        self.work_on(&request, work, ctx);
    }

    /// Shows the address and code where the client can display them: as an elicitation, in an open
    /// session, or in the answer.
    fn show_login(&mut self, id: Id, login: DeviceLogin, ctx: &mut Context<Self>) {
        let DeviceLogin { address, code, done } = login;
        if self.capabilities().elicits_url {
            let elicitation = MessageId::new();
            let message = format!("Type the code {code} at the address that opens.");
            let params = self.version().elicit_url(&id, elicitation.as_str(), &address, &message);
            let request = Id::from_text(MessageId::new().as_str());
            self.outbox.push(&rpc::request(&request, method::ELICITATION_CREATE, &params));
            // The client's answer to the elicitation changes nothing: only the login itself shows
            // how it ended.
            self.own_requests.pending.insert(request, OwnRequest::Page(id.clone()));
            return self.finish_login(id, Some(elicitation), done, ctx);
        }
        if let Some(attachment) = self.attachments.values().find(|attachment| !attachment.ended) {
            let text = format!("To log in, open {address} and type the code {code}.");
            tell(&attachment.addr, session::PostNotice(text));
            return self.finish_login(id, None, done, ctx);
        }
        let data =
            json!({ "address": address, "code": code, "advice": "open the address, type the code, then try again" });
        self.answer(&id, Err::<Value, _>(RpcError::authentication_required(data)), ctx);
        actix::spawn(async move {
            if let Err(error) = done.await {
                tracing::warn!(%error, "a login was not finished");
            }
        });
    }

    fn finish_login(
        &mut self,
        id: Id,
        elicitation: Option<MessageId>,
        done: futures_util::future::BoxFuture<'static, Result<(), AccountError>>,
        ctx: &mut Context<Self>,
    ) {
        let request = id.clone();
        let work = done.into_actor(self).map(move |done, this, ctx| {
            if let Some(elicitation) = elicitation {
                let params = json!({ "elicitationId": elicitation });
                this.outbox.push(&rpc::notification(method::ELICITATION_COMPLETE, &params));
            }
            let result = done.map(|()| json!({})).map_err(|why| login_failed(&why));
            this.answer(&id, result, ctx);
        });
        self.work_on(&request, work, ctx);
    }

    /// Withdraws the login page after the client has cancelled its login request.
    pub(super) fn withdraw_page(&mut self, request: &Id) {
        for (id, _) in
            self.own_requests.pending.take_where(|_, asked| matches!(asked, OwnRequest::Page(by) if by == request))
        {
            self.outbox.push(&rpc::notification(method::CANCEL_REQUEST, &json!({ "requestId": id })));
        }
    }

    pub(super) fn log_out(&mut self, id: Id, ctx: &mut Context<Self>) {
        let forget = self.runtime.ports().accounts.forget();
        let work = async move {
            forget.await.map(|()| json!({})).map_err(|why| {
                RpcError::internal(why.to_string(), "look at the key file in the state folder, then try again")
            })
        };
        self.answer_later(id, work, ctx);
    }
}

fn login_failed(why: &AccountError) -> RpcError {
    RpcError::authentication_required(
        json!({ "reason": why.to_string(), "advice": "try again, or set a key in the environment" }),
    )
}
