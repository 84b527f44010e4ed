-- CodeCompanion has no blank adapter to start from; OpenCode's asks nothing of the agent but the protocol.
require("codecompanion").setup({
  adapters = {
    acp = {
      acpd = function()
        return require("codecompanion.adapters").extend("opencode", {
          name = "acpd",
          formatted_name = "acpd",
          commands = { default = { "/home/you/.cargo/bin/acpd", "acp" } },
        })
      end,
    },
  },
  interactions = { chat = { adapter = "acpd" } },
})
