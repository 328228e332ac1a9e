"""Command-line options -> profile and plan: where SOURCE, --compose, --from and --drafter are looked up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calc.plan import Plan
from calc.plan_options import plan_of
from calc.speculation import BUILT_IN
from calc.weights import chosen_variant
from onboard.errors import UsageError
from onboard.open import load_profile
from onboard.profile import Profile
from onboard.values import replace


def request(source: str, options: dict[str, Any], *, writes: bool = False) -> tuple[Profile, Plan]:
    """The effective profile of SOURCE and the plan. Precedence: options, then --from, then --compose.

    Raises UsageError where --catalog is no folder (one that `writes` may be new).
    """
    _check_catalog(options.get("catalog"), writes)
    profile = load_profile(source, catalog=options.get("catalog"))
    plan = Plan()
    if options.get("compose"):
        plan = _deployment(profile, options["compose"])
    if options.get("from_file"):
        from calc.commandline import plan_from_file

        plan = plan_of(plan_from_file(options["from_file"]), plan)
    plan = plan_of(options, plan)
    if plan.weights is not None and plan.weights_gb is not None:
        chosen_variant(profile, plan.weights)  # the size given wins; a name that is not there is refused all the same
    return _with_drafter(profile, plan, options.get("catalog")), plan


def _check_catalog(catalog: str | None, writes: bool) -> None:
    if not catalog or Path(catalog).is_dir() or (writes and not Path(catalog).exists()):
        return
    said = "is not a folder" if Path(catalog).exists() else "does not exist"
    hint = "a folder that holds profiles/, overrides/ and calibration/"
    raise UsageError(f"the catalogue {said}", path="--catalog", value=catalog, hint=hint)


def _deployment(profile: Profile, name: str) -> Plan:
    for deployment in profile.deployments:
        if deployment.name == name:
            return plan_of(dict(deployment.options))
    raise UsageError(
        f"{profile.id} has no deployment called {name!r}", path="--compose", value=name,
        hint="known: " + (", ".join(d.name for d in profile.deployments) or "none"),
    )  # fmt: skip


def _with_drafter(profile: Profile, plan: Plan, catalog: str | None) -> Profile:
    """A drafter given as a SOURCE becomes one of the profile's drafters."""
    wanted = plan.drafter
    if wanted is None or wanted in BUILT_IN or any(wanted in (d.name, d.source) for d in profile.drafters):
        return profile
    draft = load_profile(wanted, catalog=catalog)
    from onboard.drafters import drafter_from_profile

    ref = replace(drafter_from_profile(draft), name=wanted, source=wanted)
    return replace(profile, drafters=(*profile.drafters, ref))
