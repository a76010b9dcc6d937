"""Help in groups: commands by what one wants to do, options by what they are about."""

from __future__ import annotations

import difflib

import click

# What the overview says of each command. The module of that name is imported when it is used.
COMMAND_GROUPS: dict[str, dict[str, str]] = {
    "Run and talk": {
        "run": "Write on from a prompt.",
        "chat": "Talk with a model in the terminal.",
        "score": "Say which of several answers a model finds likely.",
    },
    "Serve": {
        "serve": "Serve a model over HTTP, to OpenAI's and Anthropic's clients.",
        "web": "Serve a model and its dashboard, and open that in the browser.",
        "stop": "End the server on a port.",
    },
    "Models": {
        "list": "List the models on this machine, and whether they run here.",
        "info": "Say what a model is, without loading it.",
        "plan": "Say what a model would take of memory, and how fast it would be.",
        "convert": "Convert a checkpoint, so that its experts load fast.",
        "verify": "Compare a converted model with its source.",
    },
    "Place experts": {
        "usage": "Show, export or reset which experts a model used.",
        "mirror": "Copy the hot experts to a second drive, to read from both.",
        "atlas": "Measure which experts are for which topics.",
    },
    "Measure": {
        "bench": "Measure speed, and how near it is to what the machine allows.",
        "tune": "Find settings that make a model faster on this machine.",
        "replay": "Run recorded routing through other caches, without the model.",
    },
    "Trouble": {
        "doctor": "Check a model and this machine, and say what to do.",
    },
    "Shell": {
        "completion": "Print what a shell needs to complete commands and flags.",
    },
}
COMMANDS = {name: text for group in COMMAND_GROUPS.values() for name, text in group.items()}

# Names of parameters, whatever command has them; what is not named stands first.
OPTION_GROUPS = {
    "Prompt": "chat system ids thinking reasoning_effort",
    "Sampling": (
        "max_tokens temperature top_k top_p min_p repetition_penalty presence_penalty "
        "frequency_penalty seed stop ignore_eos logit_bias"
    ),
    "Structure of the answer": "json_schema grammar regex choice",
    "Server": (
        "host port model_id api_key cors_origin allowed_host max_body request_timeout "
        "drain_timeout keepalive log_prompts"
    ),
    "Memory": (
        "ram context prefill_chunk trunk_bits embed_bits cache_experts cache_share cache_scope "
        "policy pin usage usage_half_life prefix_cache"
    ),
    "Disk": (
        "model_dirs mirror disk_weights readers direct lookahead verify_reads trace trace_logits"
    ),
    "Machine": "threads cpu numa profile max_queue stall_timeout",
    "Approximate: faster, and other text": (
        "activations cache_bits router experts_per_token expert_top_p approx_check"
    ),
}
_GROUP_OF = {name: title for title, names in OPTION_GROUPS.items() for name in names.split()}
_WHOLE = 200  # characters: what a command does is not cut off
_FEW = 12  # options that need no groups


class Grouped(click.Command):
    """A command of many options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, rows in self._groups(ctx).items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _groups(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        groups |= {title: [] for title in OPTION_GROUPS}
        for option in options:
            title = "Options" if len(options) <= _FEW else _GROUP_OF.get(str(option.name))
            if (row := option.get_help_record(ctx)) is not None:
                groups[title or "Options"].append(row)
        return groups


class Commands(click.Group):
    """Commands under one name. Alone it is no mistake: it tells what there is."""

    command_class = Grouped

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(self.alone(ctx))
            ctx.exit()
        return super().parse_args(ctx, args)

    def alone(self, ctx: click.Context) -> str:
        """What it says without arguments."""
        return ctx.get_help()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, c.get_short_help_str(_WHOLE)) for name, c in found if c is not None]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if name in known or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean `{ctx.command_path} {near[0]}`?" if near else ""
        raise click.UsageError(f"there is no command {name[:40]!r}{hint}", ctx)
