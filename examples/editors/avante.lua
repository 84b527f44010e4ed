require("avante").setup({
  provider = "acpd",
  acp_providers = {
    acpd = {
      command = "/home/you/.cargo/bin/acpd",
      args = { "acp" },
    },
  },
})
