"""Check of the schema registry that the Avro publisher uses."""

from glasstream.app.operate.doctor.finding import DoctorContext, Finding, fail, ok
from glasstream.base.errors import GlasstreamError
from glasstream.kafka.stages.registry import INSTALL, subjects, value_subject
from glasstream_topics import avro


def registered(context: DoctorContext) -> list[Finding]:
    """Check that the registry answers, and has the schemas that the Avro publisher may not register itself."""
    settings, check = context.settings, "schema registry"
    if not settings.in_avro:
        return []
    try:
        found = subjects(settings, context.environment)
        copies = {topic.in_avro(): avro.schema(topic) for topic in settings.in_avro}
        names = {copy: value_subject(copy, settings.prefix) for copy in copies}
        lacking = [copy for copy, made in copies.items() if found.find(names[copy], made) is None]
        refused = [names[copy] for copy in lacking if found.refuses(names[copy], copies[copy])]
    except ImportError as error:
        return [fail(check, f"the package {error.name} is missing", INSTALL)]
    except GlasstreamError as error:
        return [fail(check, str(error), "the Avro publisher waits until the registry gives the schemas")]
    if refused:
        what = f"{settings.avro.registry} refuses the schemas of this release under the subjects {', '.join(refused)}"
        return [fail(check, what, "change their compatibility mode, or delete versions that are not of Glasstream")]
    if lacking and not settings.avro.register:
        subjects_lacking = ", ".join(names[copy] for copy in lacking)
        files = ", ".join(copy.schema_file for copy in lacking)
        what = f"{settings.avro.registry} lacks schemas of this release under the subjects {subjects_lacking}"
        return [fail(check, what, f"register {files}, or set avro.register = true")]
    have = len(copies) - len(lacking)
    return [ok(check, f"{settings.avro.registry} has {have} of {len(copies)} schemas; the worker registers the others")]
