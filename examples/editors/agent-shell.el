(require 'acp)
(require 'agent-shell)

(add-to-list
 'agent-shell-agent-configs
 (agent-shell-make-agent-config
  :identifier 'acpd
  :mode-line-name "acpd"
  :buffer-name "acpd"
  :shell-prompt "acpd> "
  :shell-prompt-regexp "acpd> "
  :client-maker (lambda (buffer)
                  (acp-make-client :command "/home/you/.cargo/bin/acpd"
                                   :command-params '("acp")
                                   :context-buffer buffer))))
