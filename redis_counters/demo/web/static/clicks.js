// The user's own likes. A click shows at once; then the server is told what the user wants, as often as it takes,
// for telling it again changes nothing. Its answer is what is shown in the end.
//
// Clicks on a post are numbered. So a copy of an old one, sent by a page that was reloaded or held up on the way, does
// not undo a newer one: the server answers it with what is so, and takes no notice of it otherwise.

const ATTEMPTS = 6;
const HOLD = 300; // milliseconds after an answer during which counts that were read before it may still arrive

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Clicks of this tab that are not answered yet; kept over a reload.
const pending = {
  get: (post) => stored(() => JSON.parse(sessionStorage.getItem(`like-${post}`))),
  set: (post, liked) => stored(() => sessionStorage.setItem(`like-${post}`, JSON.stringify(liked))),
  remove: (post) => stored(() => sessionStorage.removeItem(`like-${post}`)),
};

function stored(work) {
  try {
    return work() ?? null;
  } catch {
    return null; // a browser that keeps nothing
  }
}

export class Clicks {
  constructor({ showCount, showLiked, say, told }) {
    this.showCount = showCount;
    this.showLiked = showLiked;
    this.say = say;
    this.told = told;
    this.posts = new Map();
  }

  // The card as it was served. A click that the last page did not get an answer for is told again: a reload may have
  // cut it off, or the server may have answered the reload first.
  begin(post, liked, likes, number) {
    // wanted: by the user; confirmed: by the server; likes: as the server counts, with `confirmed` in it;
    // latest: the last count that arrived; answered, changed: when a click was answered, or another tab's was told of.
    // number: of the last click that the server took.
    this.posts.set(post, {
      wanted: liked,
      confirmed: liked,
      likes,
      number,
      latest: likes,
      busy: false,
      changed: 0,
      answered: -HOLD,
    });
    const unanswered = pending.get(post);
    if (unanswered === null) return;
    this.posts.get(post).wanted = unanswered.liked;
    this.showLiked(post, unanswered.liked);
    this.refresh(post);
    this.tell(post, unanswered.number);
  }

  click(post) {
    const it = this.posts.get(post);
    it.wanted = !it.wanted;
    pending.set(post, { liked: it.wanted, number: it.number + (it.busy ? 2 : 1) });
    this.showLiked(post, it.wanted);
    this.refresh(post);
    if (!it.busy) this.tell(post);
    return it.wanted;
  }

  // Another tab of this browser has done it.
  elsewhere(post, liked, number) {
    const it = this.posts.get(post);
    it.number = Math.max(it.number, number);
    if (it.busy || it.confirmed === liked) return;
    it.wanted = it.confirmed = liked;
    it.changed = performance.now();
    this.showLiked(post, liked); // the count comes by itself
  }

  // What the server knew of this user when it was asked, or later.
  known(mine, numbers, asked) {
    for (const [post, it] of this.posts) {
      it.number = Math.max(it.number, numbers[post] ?? 0);
      if (it.busy || it.changed > asked) continue;
      it.wanted = it.confirmed = mine.includes(post);
      this.showLiked(post, it.wanted);
    }
  }

  // What the server counts, by post.
  counted(likes) {
    for (const [post, it] of this.posts) {
      it.latest = likes[post - 1];
      if (!it.busy) this.accept(post);
    }
  }

  // The latest count is shown, unless it may be older than the answer to a click; then a moment later.
  accept(post) {
    const it = this.posts.get(post);
    clearTimeout(it.timer);
    const rest = it.answered + HOLD - performance.now();
    if (rest > 0) {
      it.timer = setTimeout(() => it.busy || this.accept(post), rest);
    } else {
      it.likes = it.latest;
      this.refresh(post);
    }
  }

  refresh(post) {
    const it = this.posts.get(post);
    this.showCount(post, it.likes + Number(it.wanted) - Number(it.confirmed));
  }

  // The server knows what is wanted. With the number of a click whose outcome is unknown, that one is sent again
  // first; if a newer one was taken meanwhile, in another tab, that is what is wanted.
  async tell(post, unanswered = 0) {
    const it = this.posts.get(post);
    it.busy = true;
    try {
      // The user may click again while the answer is awaited; only where it ends counts.
      while (unanswered || it.wanted !== it.confirmed) {
        const liked = it.wanted;
        const number = unanswered || it.number + 1;
        pending.set(post, { liked, number });
        const answer = await this.send(`/posts/${post}/like`, { liked: liked ? "yes" : "no", number });
        it.confirmed = answer.liked;
        it.number = answer.number;
        it.likes = it.latest = answer.likes;
        if (unanswered && it.wanted === liked) this.want(post, answer.liked);
        unanswered = 0;
        this.told(post, answer.liked, answer.number);
      }
    } catch (error) {
      this.want(post, it.confirmed);
      this.say(error.message);
    } finally {
      pending.remove(post);
      it.busy = false;
      it.changed = it.answered = performance.now();
      this.refresh(post);
      this.accept(post);
    }
  }

  want(post, liked) {
    this.posts.get(post).wanted = liked;
    this.showLiked(post, liked);
  }

  // The server has taken this, once or several times. Throws an error with a sentence for the user.
  async send(url, fields) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const response = await fetch(url, {
          method: "POST",
          headers: { accept: "application/json" },
          body: new URLSearchParams(fields),
        });
        if (response.ok) return await response.json();
        if (response.status < 500) throw new Refused(await sentenceOf(response));
      } catch (error) {
        if (error instanceof Refused) throw error;
      }
      if (attempt === ATTEMPTS) throw new Error("The server does not answer. Try again in a moment.");
      await sleep(150 * 2 ** attempt);
    }
  }
}

class Refused extends Error {}

async function sentenceOf(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).error;
  } catch {
    return text || "The server refused that.";
  }
}
