"""The rules of WfFormat 1.5 and 1.6 as JSON Schema, restated from the published ones.

1.6 added ``metrics``, one shared pattern for task ids (which may not be empty), and date-time
formats; a valid 1.5 document is a valid 1.6 one but for its version and unusual ids.
"""

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string", "minLength": 1}
_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_FILE_ID: Schema = {**_TEXT, "pattern": "^[0-9a-zA-Z-_./:#]*$"}


def wfformat_rules(version: str) -> Schema:
    task_id: Schema = _TEXT
    reference: Schema = {"type": "string", "pattern": "^[0-9a-zA-Z-_.]*$"}
    file_id: Schema = {**_TEXT, "pattern": "^[0-9a-zA-Z-_.]*$"}
    if version == "1.6":
        task_id = reference = {**_TEXT, "pattern": "^[0-9a-zA-Z_.#:/-]+$"}
        file_id = _FILE_ID
    specification = _object(
        {
            "tasks": _list(_specified_task(task_id, reference, file_id), 1),
            "files": _list(_object({"id": _TEXT, "sizeInBytes": _COUNT}, "id sizeInBytes")),
        },
        "tasks",
    )
    execution = _object(
        {
            "makespanInSeconds": _NUMBER,
            "executedAt": {
                **_TEXT,
                "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)$",
            },
            "tasks": _list(_executed_task(task_id), 1),
        },
        "makespanInSeconds executedAt tasks",
    )
    if version == "1.6":
        specification["properties"]["metrics"] = _object(
            dict.fromkeys(
                [
                    "numberOfTasks",
                    "numberOfFiles",
                    "sumOfFileSizesInBytes",
                    "numberOfLevels",
                    "minimumWidth",
                    "maximumWidth",
                ],
                _COUNT,
            )
        )
    return _object(
        {
            "name": _TEXT,
            "schemaVersion": {"type": "string", "enum": [version]},
            "createdAt": _TEXT,
            "workflow": _object(
                {"specification": specification, "execution": execution}, "specification"
            ),
        },
        "name schemaVersion workflow",
    )


def _specified_task(task_id: Schema, reference: Schema, file_id: Schema) -> Schema:
    return _object(
        {
            "name": _TEXT,
            "id": task_id,
            "parents": _list(reference),
            "children": _list(reference),
            "inputFiles": _list(file_id),
            "outputFiles": _list(file_id),
        },
        "name id parents children",
    )


def _executed_task(task_id: Schema) -> Schema:
    return _object(
        {
            "id": task_id,
            "runtimeInSeconds": _NUMBER,
            "command": _object({"program": _TEXT, "arguments": _list(_TEXT)}),
            "coreCount": {"type": "number", "minimum": 1},
            "memoryInBytes": _NUMBER,
        },
        "id runtimeInSeconds",
    )


def _object(properties: Schema, required: str = "") -> Schema:
    return {"type": "object", "properties": properties, "required": required.split()}


def _list(items: Schema, count_min: int = 0) -> Schema:
    return {"type": "array", "items": items, "minItems": count_min}
