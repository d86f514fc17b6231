// Types of the messages that the server sends (viewer.py, parts.py), and of the state that the page merges them into.
// The browser never loads this file. tests/app/page/test_javascript.py compiles messages of a server against them.

/**
 * The first message of a view, and later ones that replace everything.
 * @typedef {Outline & Parts & {type: "state", stream: string, epoch: number}} State
 */

/**
 * The first message while nothing is known of the stream, or the rows of all streams.
 * @typedef {Outline & {type: "state", stream: string | null, epoch: null, behind: string | null, rows?: StreamRow[]
 * }} Waiting
 */

/**
 * The rows of the streams that have changed since the message before.
 * @typedef {Omit<Outline, "streams"> & {type: "rows", rows: StreamRow[]}} Changed
 */

/**
 * What is new since the message before.
 * @typedef {Omit<Outline, "streams"> & Partial<Pick<Outline, "streams">> & Parts & {type: "delta"}} Delta
 */

/** @typedef {State | Waiting | Delta | Changed} Message */

/**
 * All messages of a view, put together.
 * @typedef {Outline & Partial<Parts> & Pick<Required<Parts>, "alarms" | "incidents"> & {
 *   type: "state", stream: string | null, epoch: number | null, effect: Effect | null, behind?: string | null,
 *   rows?: StreamRow[]}} Known
 */

/**
 * What concerns all streams.
 * @typedef {object} Outline
 * @property {string[]} streams their names; in a delta only if there are new ones
 * @property {number} left_out records of streams beyond the bound
 * @property {Record<string, number>} rejected dead letters by reason
 * @property {number} damaged records that cannot be read
 * @property {boolean} watched whether the server's settings say that streams are watched for incidents
 * @property {string | null} trouble why the server cannot read on
 * @property {{read: number, total: number} | null} reading how much has been read back; null when all has been
 */

/**
 * What is known of one stream. Optional parts are absent until there is a record for them.
 * @typedef {object} Parts
 * @property {Record<string, number>} newest by topic: when its newest record was written, in milliseconds since 1970
 * @property {Record<string, string>} methods their names for people, by name
 * @property {Quality} quality
 * @property {number} alarms_total
 * @property {number} incidents_total
 * @property {number[]} incidents_kept numbers of the incidents that the server keeps, in ascending order
 * @property {Record<string, (string | null)[]>} outputs by feature with effect curves: the outputs that they are of
 * @property {Importance} [importance]
 * @property {Alarm[]} [alarms]
 * @property {Watching} [watching]
 * @property {Segments} [segments] in a delta only if they have changed
 * @property {Incident[]} [incidents] in a delta those that have changed; in ascending order of their numbers
 * @property {Effect | null} [effect]
 * @property {Novelty} [novelty]
 * @property {Explained} [explained] in a delta only if the list has changed
 * @property {Opened} [opened] in a delta only when it comes to be known
 * @property {ByGroup[]} [groups] by attribute; in a delta only if one has changed
 * @property {WithOther[]} [comparisons] with other streams; in a delta only if one has changed
 */

/**
 * Means over runs of `width` events, one entry a run in each column.
 * @typedef {object} Bins
 * @property {number} width
 * @property {number} from index of the first run that is sent
 * @property {number[]} index
 * @property {number[]} first smallest event number
 * @property {number[]} last largest event number
 * @property {number[]} count events that have a value
 * @property {(number | null)[]} mean
 * @property {(number | null)[]} note
 * @property {(number | null)[]} ts largest time of an event, in milliseconds since 1970; null where events have none
 */

/**
 * The model beside baselines, over recent events: shares of right predictions, or mean absolute errors of numbers.
 * @typedef {object} Standing
 * @property {number} events
 * @property {number | null} model
 * @property {number | null} constant
 * @property {number | null} no_change
 * @property {string | null} most_frequent null for numbers
 * @property {number | null} kappa_m 0 for a model like the most frequent class, 1 if all is right
 * @property {number | null} kappa_temporal 0 for a model like the previous label, 1 if all is right
 * @property {number | null} balanced mean over the classes of the share of right predictions
 * @property {number | null} log_loss
 * @property {number} log_loss_events events whose record names the probability of the right class
 * @property {number | null} roc_auc of two classes
 * @property {number | null} largest largest absolute value of all labels so far; null for classes
 * @property {boolean} beaten whether the model is better than both baselines
 * @property {boolean} diverged whether the errors of a regression model have left the scale of the labels
 */

/**
 * What the overview tells of a model beside its baselines.
 * @typedef {Pick<
 *   Standing, "events" | "model" | "constant" | "no_change" | "most_frequent" | "beaten" | "diverged"
 * >} Compared
 */

/**
 * One stream in the overview.
 * @typedef {object} StreamRow
 * @property {string} stream
 * @property {number} epoch
 * @property {number} events
 * @property {number} rate events per second in the last minute before the newest
 * @property {number} newest when the newest prediction was written, in milliseconds since 1970; 0 before the first
 * @property {Compared | null} standing
 * @property {string} method name for people of the method of the leading features
 * @property {[name: string, value: number][]} leading features, best first
 * @property {Pick<WithOther, "better" | "other"> | null} compared newest comparison with another stream
 * @property {number} open number of open incidents, as far as the server keeps them
 * @property {Reported | null} incident the newest open one, otherwise the newest
 */

/**
 * @typedef {object} Reported
 * @property {number} incident its number
 * @property {string} status
 * @property {string} title the verdict for people
 * @property {string} since row or event at which it began
 * @property {string} summary
 * @property {number} reported when its first record was written, in milliseconds since 1970
 */

/**
 * @typedef {object} Quality
 * @property {string} loss_name
 * @property {string} metric_name
 * @property {number | null} metric
 * @property {number} events
 * @property {number} labelled
 * @property {number | null} last_seq
 * @property {number | null} recent_loss
 * @property {number} recent_events
 * @property {Standing | null} standing
 * @property {Bins} bins
 */

/**
 * Importance by one method: columns have an entry for each record.
 * @typedef {object} Importance
 * @property {string} method
 * @property {string} label the method's name for people
 * @property {string} meaning what the numbers mean
 * @property {string} loss
 * @property {number} alpha
 * @property {{kind: string | null, level: number | null}} interval
 * @property {number} records
 * @property {number} kept_every
 * @property {number[]} row
 * @property {number[]} seq
 * @property {number[]} lag
 * @property {number[]} coverage
 * @property {Record<string, Columns>} features those that are drawn
 * @property {number[]} others sum of the positive values of all other features
 * @property {Ranked[]} ranking of all features, now
 * @property {number} left_out
 * @property {[number | null, number | null, number | null]} totals
 * @property {Last | null} last
 */

/** @typedef {{value: (number | null)[], low: (number | null)[], high: (number | null)[]}} Columns */

/** @typedef {[rank: number, name: string, value: number, low: number | null, high: number | null]} Ranked */

/**
 * The newest importance record.
 * @typedef {object} Last
 * @property {number} row
 * @property {number} seq
 * @property {number} n
 * @property {number} lag
 * @property {number} coverage
 * @property {number} model_version
 * @property {number | null} staleness
 */

/** @typedef {number | string | boolean} Place a grid point: a number, or a category */

/**
 * @typedef {object} Curve
 * @property {Place[]} grid
 * @property {number[]} curve
 * @property {(number | null)[]} [margin] half the width of the interval at each point; an alarm's curves have none
 */

/**
 * @typedef {object} Effect
 * @property {string} feature
 * @property {string | null} output
 * @property {string} kind
 * @property {(Curve & {row: number, seq: number, n: number, importance: number})[]} curves oldest first
 */

/**
 * @typedef {object} Alarm
 * @property {number} row
 * @property {number} seq
 * @property {string} signal
 * @property {string | null} feature
 * @property {string | null} method
 * @property {string} label the method's name for people; empty without a method
 * @property {number} before
 * @property {number} after
 * @property {number} width
 * @property {string} detector
 * @property {(Curve & {output: string | null}) | null} curve_before
 * @property {(Curve & {output: string | null}) | null} curve_after
 */

/**
 * @typedef {object} Incident
 * @property {number} incident its number
 * @property {string} status `open`, `over` or `normal`
 * @property {number} row row at which it had this status
 * @property {number} seq the event of that row
 * @property {boolean} by_events whether its rows, and those of its onset and evidence, are events without labels
 * @property {Onset} onset
 * @property {string} verdict
 * @property {string} title the verdict for people
 * @property {number} weight
 * @property {{title: string, weight: number}[]} alternatives best first
 * @property {Affected[]} features most affected first
 * @property {string} loss_name
 * @property {number | null} loss_before
 * @property {number | null} loss_after
 * @property {string} summary
 * @property {Evidence[]} evidence strongest first
 * @property {Segment[]} segments parts of the events that carry the change, the one that carries most first
 * @property {string} advice what to do about the verdict
 * @property {string} suggestion what to do about the incident; empty in records of earlier releases
 */

/**
 * @typedef {object} Watching
 * @property {number} row row as of which the stream is watched so
 * @property {number} left_out further features
 * @property {string} note what the sizes are
 * @property {WatchedSeries[]} series the labels, if there are any, and features
 */

/**
 * @typedef {object} WatchedSeries
 * @property {string | null} feature null for the labels
 * @property {string} state
 * @property {string} title the state for people
 * @property {number} known number of values that later ones are compared with
 * @property {number} bins
 * @property {number} block
 * @property {Record<string, string>} detectable by number of rows: the smallest changes that are noticed within them
 */

/**
 * @typedef {object} Segment
 * @property {string} text its conditions
 * @property {number} share_before share of the rows before that belong to it
 * @property {number} share_since
 * @property {number | null} loss_before mean loss of these rows
 * @property {number | null} loss_since
 * @property {number | null} low smallest rise of the loss, or of the share, that is likely
 * @property {number | null} high
 * @property {number | null} carried part of the change that it carries
 */

/**
 * @typedef {object} Onset
 * @property {number} row
 * @property {number} earliest
 * @property {number} latest
 * @property {number | null} seq event of the row
 * @property {number | null} ts its time in milliseconds since 1970
 */

/**
 * @typedef {object} Affected
 * @property {string} feature
 * @property {string | null} fault
 * @property {string | null} other
 * @property {number | null} factor
 * @property {number | null} [factor_low]
 * @property {number | null} [factor_high]
 */

/**
 * A watched series that changed.
 * @typedef {object} Evidence
 * @property {string} side
 * @property {string | null} feature
 * @property {string | null} other second feature of a pair
 * @property {number} row
 * @property {number} strength logarithm to base 10 of the evidence
 * @property {number | null} before
 * @property {number | null} after
 */

/**
 * @typedef {object} Novelty
 * @property {number} events
 * @property {number} flagged
 * @property {number | null} recent_rate
 * @property {number} recent_events
 * @property {number | null} away threshold, as a multiple of that of the map's window
 * @property {number | null} last_seq
 * @property {number | null} map_version
 * @property {Example[]} examples newest first
 * @property {{seq: number, before: number, after: number, width: number}[]} alarms
 * @property {number} alarms_total
 * @property {Bins} bins
 */

/**
 * A flagged event.
 * @typedef {object} Example
 * @property {number} seq
 * @property {string} id
 * @property {number} indicator
 * @property {number} threshold
 * @property {[name: string, slope: number][]} attribution
 */

/**
 * One explained event: id, time and label are null until its prediction is known, and if it has none;
 * `flagged` is true if the novelty detector flags it.
 * @typedef {[seq: number, output: string | null, prediction: number, id: string | null, ts: number | null,
 *   target: string | number | null, flagged: boolean]} ExplainedRow
 */

/**
 * @typedef {object} Explained
 * @property {number} total number of explained events so far
 * @property {ExplainedRow[]} rows those that the server keeps, oldest first
 */

/**
 * Why one event was predicted as it was.
 * @typedef {object} Opened
 * @property {ExplainedRow} row
 * @property {string} sentence
 * @property {string} origin
 * @property {Step[]} steps from the average event to the explained number
 */

/** @typedef {[words: string, amount: number, begin: number, end: number]} Step */

/**
 * Which model is better on the same events: that of the stream, or that of another one.
 * @typedef {object} WithOther
 * @property {string} other name of the other stream
 * @property {number} rows
 * @property {number} seq
 * @property {"stream" | "other" | null} better null if this is not known yet
 * @property {string} text the statement
 */

/**
 * @typedef {object} Segments
 * @property {string} sentence what was found, and how it was tested
 * @property {WeakSegment[]} segments clearest first
 */

/**
 * @typedef {object} WeakSegment
 * @property {string} text its conditions
 * @property {number} share of the rows
 * @property {number} loss
 * @property {number} outside mean loss of the other rows
 * @property {number} low of the difference of the two
 * @property {number} high
 * @property {number} since row
 */

/**
 * The groups of one attribute, over all rows of the epoch.
 * @typedef {object} ByGroup
 * @property {string} attribute
 * @property {number} rows
 * @property {number} level of the intervals
 * @property {number} least rows below which there is no mean
 * @property {string} loss
 * @property {string | null} positive the class whose rates are given; null for numbers
 * @property {OneGroup[]} groups
 * @property {number | null} demographic_parity_difference
 * @property {number | null} equalized_odds_difference
 * @property {string[]} alarms sentences about what got worse
 */

/** @typedef {[of: number, value: number | null, low: number | null, high: number | null]} MeanOf */

/**
 * @typedef {object} OneGroup
 * @property {string} kind `value`, `other` or `missing`
 * @property {string | null} value
 * @property {number} rows
 * @property {MeanOf | null} accuracy
 * @property {MeanOf | null} error
 * @property {MeanOf | null} loss
 * @property {MeanOf | null} selection
 * @property {MeanOf | null} true_positive
 * @property {MeanOf | null} false_positive
 */

export {};
